// What the device plugin's parts stand on in a simulated node: its cards, the files of the
// container runtime, and kubelet's PodResources API. Inventory and PodResources are replaced at
// link time, so that they need no thread and no gRPC.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/cards/card_source.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"

namespace mgpu::simulation {

// The cards of one node, as its driver reports them.
class SimulatedCards {
 public:
  SimulatedCards(std::string node, int cards);

  void set_healthy(int card, bool healthy);
  const plugin::FoundCards& found() const { return found_; }
  std::vector<CardFacts> facts() const;
  // `*this` outlives it.
  std::unique_ptr<plugin::CardSource> source() const;

 private:
  plugin::FoundCards found_;
};

// What the runtime would add to containers. It is in memory, as /run is.
class SimulatedInjector final : public plugin::Injector {
 public:
  // The cards that a container with this allocation gets; empty where there is none.
  std::vector<CardIndex> cards_of(const plugin::AllocationId& id) const;
  void clear() { injected_.clear(); }

  std::string name() const override { return "simulated"; }
  plugin::AllocateResponse allocate_response(const plugin::Record& record) const override;
  void set_shared(const plugin::Edits&, const plugin::Edits&) override {}
  void restore(const plugin::AllocationId& id, const plugin::Edits& edits) override;
  Result<bool> inject(const plugin::AllocationId& id, const plugin::Edits& edits) override;
  void remove(const plugin::AllocationId& id) override;

 private:
  std::map<plugin::AllocationId, plugin::Edits> injected_;
};

// Answers PodResources("<node>").list(); an empty function: kubelet does not answer.
using ListDevices = std::function<Result<std::vector<plugin::ContainerDevices>>()>;
void serve_pod_resources(const std::string& node, ListDevices list);

}  // namespace mgpu::simulation
