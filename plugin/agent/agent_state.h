// The agent's parts and the thread that brings them up and keeps house; see agent.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/http/router.h"
#include "common/program/service_routes.h"
#include "plugin/agent/agent.h"
#include "plugin/agent/agent_metrics.h"
#include "plugin/agent/known_cards.h"
#include "plugin/agent/monitoring.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps.h"
#include "plugin/containers/allocate_handler.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/pre_start_handler.h"
#include "plugin/containers/record_collector.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/device_plugin.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/node/event_recorder.h"
#include "plugin/node/node_publisher.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// Members are in the order of who uses whom: what is declared later ends earlier.
struct Agent::State {
 public:
  State(AgentSettings settings, std::unique_ptr<CardSource> cards, kube::Transport& transport,
        std::function<void(const std::string&)> on_fatal);

  Result<void> start();
  void end();  // blocks until nothing runs
  std::uint16_t port() const { return server_->port(); }
  Readiness readiness() const;

 private:
  // The thread: bringing up, then keeping house.
  void run();
  bool bring_up();  // false: ending
  bool choose_injector();
  std::optional<Injection> ask_runtime();
  bool wait_for_cards();
  bool complete_records();
  void rebuild(const CheckpointEntry& entry);
  void remember_injected();
  bool register_plugins();
  std::unique_ptr<DevicePlugin> make_plugin(const std::string& resource,
                                            std::vector<Device> devices,
                                            DevicePluginHandlers handlers);
  static Result<AllocateResponse> allocate_memory(const std::vector<std::string>& ids);
  void say_waiting(const std::string& what);
  void maintenance_loop();
  void on_over(const Overuse& over);
  void evict_over();
  bool wait_for_news(std::chrono::milliseconds time);  // false: ending
  bool wait(std::chrono::milliseconds time);           // false: ending

  // Cards and kubelet.
  std::optional<KnownCards> recall();
  bool remember(const KnownCards& known);
  void on_cards(const InventoryState& before, const InventoryState& now);
  void tell_of_sick_cards(const InventoryState& before, const InventoryState& now);
  std::vector<Device> core_devices(const std::vector<CardFacts>& cards) const;
  std::vector<Device> memory_devices(const std::vector<CardFacts>& cards) const;
  void offer(const std::vector<CardFacts>& cards);
  void publish();
  bool registered() const;
  void on_registration(const std::string& resource, const Result<void>& outcome);
  Result<AllocateResponse> allocate(const std::vector<std::string>& ids);
  Result<void> pre_start(const std::vector<std::string>& ids,
                         const std::function<bool()>& cancelled);
  void on_refused(const Refusal& refusal);

  void add_routes();
  void update_metrics();

  const AgentSettings settings_;
  kube::Transport& transport_;
  const std::function<void(const std::string&)> on_fatal_;
  Metrics metrics_;
  AgentMetrics own_metrics_{metrics_};
  Records records_;
  KnownCardsFile known_file_;
  EventRecorder events_;
  std::unique_ptr<NodePublisher> publisher_;  // ends on the executor
  std::unique_ptr<Pods> pods_;
  std::unique_ptr<Mps> mps_;  // none: --isolation=none
  PodResources pod_resources_;
  Inventory inventory_;
  std::unique_ptr<Injector> injector_;
  std::unique_ptr<AllocateHandler> allocator_;
  std::unique_ptr<PreStartHandler> starter_;
  std::unique_ptr<RecordCollector> collector_;
  std::unique_ptr<Monitoring> monitoring_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  bool up_ MGPU_GUARDED_BY(mutex_) = false;                                    // bring_up is done
  std::string waiting_for_ MGPU_GUARDED_BY(mutex_) = "the container runtime";  // while it is not
  std::unique_ptr<DevicePlugin> core_plugin_;
  std::unique_ptr<DevicePlugin> memory_plugin_;

  http::Router router_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

}  // namespace mgpu::plugin
