// The device plugin of one node: its handlers, records and watch, over a link to the API server.
// The same parts as in plugin/agent/agent.h, without gRPC and threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/containers/allocate_handler.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/pre_start_handler.h"
#include "plugin/containers/record_collector.h"
#include "plugin/injection/injector.h"
#include "plugin/node/node_publisher.h"
#include "plugin/state/incumbent.h"
#include "plugin/state/records.h"
#include "test/simulation/disk.h"
#include "test/simulation/link.h"
#include "test/simulation/node_parts.h"

namespace mgpu::simulation {

class PluginProcess {
 public:
  struct Parts {
    kube::MemoryApiServer& server;
    FaultQueue& faults;
    const Contract& contract;
    Disk& disk;
    SimulatedCards& cards;
    std::string run_folder;  // has the CDI specs, too
    // kubelet calls this process from now on.
    std::function<void()> on_registered;
    // The process ends, and is to be started again.
    std::function<void()> on_fatal;
    // Whether the MPS daemon of the card answers.
    std::function<bool(CardIndex)> mps_answers;
  };
  // `number` differs between the processes of a node. All of `parts` outlive it.
  PluginProcess(Parts parts, const std::string& node, int number);
  ~PluginProcess();

  Link& link() { return link_; }
  int number() const { return number_; }
  // kubelet has restarted.
  void register_again();
  bool answers_kubelet() { return !link_.executor().frozen(); }
  void cards_changed() { publish(); }
  // The devices that kubelet is offered.
  std::vector<std::string> offered() const;
  // As many percent.
  Percent offered_core() const;
  Result<plugin::AllocateResponse> allocate(const std::vector<std::string>& ids);
  // One attempt.
  plugin::Decided<void> pre_start(const std::vector<std::string>& ids);

 private:
  void open();
  plugin::ShareLimits share_limits() const;
  void register_later();
  void maintain_later();
  void leave_node_to_successor();
  void publish();
  // What pods hold of unhealthy cards.
  Share held() const;

  const Parts parts_;
  const std::string node_;
  const int number_;
  Link link_;
  plugin::Records records_;
  plugin::Incumbent incumbent_;
  plugin::Pods pods_;
  plugin::NodePublisher publisher_;
  plugin::PodResources pod_resources_;
  const plugin::PodProcesses pod_processes_;
  plugin::Inventory inventory_;
  const plugin::Mps mps_;  // its edits only; it starts nothing
  const plugin::LimitHook hook_{.program = "mgpu-set-limits"};
  const std::unique_ptr<plugin::Injector> injector_;
  int nonces_ = 0;
  plugin::AllocateHandler allocate_handler_;
  plugin::PreStartHandler pre_start_handler_;
  plugin::RecordCollector collector_;
  CallbackGuard callbacks_;
};

}  // namespace mgpu::simulation
