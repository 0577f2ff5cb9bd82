// What the device plugin's parts stand on in a simulated node: its cards, the files of the
// container runtime, and kubelet's PodResources API. Inventory and PodResources are replaced at
// link time, so that they need no thread and no gRPC.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/cards/card_source.h"
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

// What the CDI specs of a node say about one container.
struct SpecEntry {
  std::vector<CardIndex> cards;
  bool is_limited_by_mps = false;
  bool asks_mps = false;  // a hook starts it only if the daemon answers
};
// Nothing where the specs of the folder do not have the allocation, and the runtime creates no
// container.
std::optional<SpecEntry> find_in_spec(const std::string& cdi_folder, const Contract& contract,
                                      const std::string& allocation);
// Replaces the spec by one without containers, as an earlier process or a backup could.
void put_empty_spec(const std::string& cdi_folder, const Contract& contract);

// Answers PodResources("<node>").list(); an empty function: kubelet does not answer.
using ListDevices = std::function<Result<std::vector<plugin::ContainerDevices>>()>;
void serve_pod_resources(const std::string& node, ListDevices list);

}  // namespace mgpu::simulation
