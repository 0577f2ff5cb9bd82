// The device plugin as one object: cards, kubelet, Node object, monitoring and HTTP server, over
// any Transport. main.cc runs it over libcurl, the tests over the in-memory API server.
//
//   Starting (HTTP listens, /readyz answers 503)
//     --runtime queried, cards read, records complete--> Serving (registers with kubelet)
//     --kubelet reads the devices--> Ready --destructor--> Stopped; running containers go on
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/utc_text.h"
#include "common/contract/contract.h"
#include "common/http/router.h"
#include "common/kube/event_recorder.h"
#include "common/kube/transport.h"
#include "common/program/service_routes.h"
#include "common/program/service_server.h"
#include "plugin/agent/access_check.h"
#include "plugin/agent/agent_metrics.h"
#include "plugin/agent/client_terminator.h"
#include "plugin/agent/drift_detector.h"
#include "plugin/agent/driver_release.h"
#include "plugin/agent/findings.h"
#include "plugin/agent/isolation.h"
#include "plugin/agent/kubelet_devices.h"
#include "plugin/agent/monitoring.h"
#include "plugin/agent/profile_control.h"
#include "plugin/agent/progress.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/inventory.h"
#include "plugin/containers/allocate_handler.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/pre_start_handler.h"
#include "plugin/containers/record_collector.h"
#include "plugin/containers/reserved_memory.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/monitor/limits.h"
#include "plugin/node/limits.h"
#include "plugin/node/node_publisher.h"
#include "plugin/state/incumbent.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

enum class MemoryResource { kNodeStatus, kDevicePlugin };
enum class Enforcement { kNone, kEvict };

struct AgentOptions {
  Contract contract;
  NodeName node;
  ServiceOptions service;
  std::string plugin_folder;  // of kubelet.sock
  std::string pod_resources_socket;
  std::string runtime_socket;
  std::string state_folder;
  std::string run_folder;
  std::string node_root = "/";  // where this process sees the node's files
  std::string cdi_folder;
  std::string proc_folder = "/proc";
  std::chrono::milliseconds settle{0};
  MemoryResource memory_resource = MemoryResource::kNodeStatus;
  bool taint = true;            // with mgpu-needs-cpu, if the node's cards need its CPU
  bool beside_nvidia = false;   // offers cards that another device plugin gives out
  IsolationOptions isolation;   // without its folders and the terminator
  Duration mps_end_clients{0};  // the margin of ClientTerminator
  Enforcement enforcement = Enforcement::kNone;
  MiB context{0};                                           // of Watchdog
  std::chrono::milliseconds access_period = kAccessPeriod;  // see AccessCheck
  // See ProfileControl::Options.
  std::vector<Profile> profiles;
  std::optional<MiB> reserve{};
  std::optional<MiB> minimum_memory{};
};

class Agent {
 public:
  // The HTTP server listens when this returns; everything else is started in the background.
  // `transport` outlives the agent. `on_fatal` is called at most once, on another thread, with the
  // error after which the agent does not serve. Errors: the HTTP server's, an unusable state
  // folder.
  static Result<std::unique_ptr<Agent>> start(AgentOptions options,
                                              std::unique_ptr<CardSource> cards,
                                              kube::Transport& transport,
                                              std::function<void(const std::string&)> on_fatal);
  // REQUIRES: not on the transport's executor, which still runs.
  ~Agent();

  std::uint16_t port() const { return service_->port(); }
  bool ready() const { return readiness().waiting_for.empty(); }

 private:
  Agent(AgentOptions options, std::unique_ptr<CardSource> cards, kube::Transport& transport,
        std::function<void(const std::string&)> on_fatal);

  void add_routes();
  // What the parts ask of the agent.
  ClientTerminator::Dependencies terminator_dependencies();
  Inventory::Dependencies inventory_dependencies();

  // --- agent_start.cc: the thread.
  Result<void> begin();
  void run();
  void make_handlers();
  void replace_other_process();
  void restore_injections();
  bool register_with_kubelet();
  void maintain();
  void watch_containers(Monitoring& monitoring);
  void leave_node_to_successor();

  // --- agent.cc: callbacks.
  // Calls on_fatal_ the first time.
  void fail(const std::string& problem);
  // Why no card is offered while another device plugin gives out the cards; empty: none does.
  std::string given_by_another() const;
  // The cards that are offered are known from now on.
  void settle_cards();
  void on_cards_changed(const InventoryState& before, const InventoryState& now);
  void publish_node();
  // The error says that another process of the node has replaced this one.
  Result<void> not_replaced() const;
  Result<void> pre_start(const std::vector<std::string>& ids,
                         const std::function<bool()>& cancelled);
  Readiness readiness() const;
  void update_metrics();

  // Members use those before them. Some are called back and then use others; ~Agent() stops these
  // before any member ends.
  const AgentOptions options_;
  kube::Transport& transport_;
  const std::function<void(const std::string&)> on_fatal_;
  Progress progress_;
  Metrics metrics_;
  Heartbeat work_{transport_.executor()};
  AgentMetrics agent_metrics_{metrics_};
  Records records_{options_.state_folder + "/allocations"};
  Incumbent incumbent_{options_.run_folder + "/serving"};
  kube::EventRecorder events_{
      {.component = "mgpu-device-plugin", .host = options_.node.str()}, transport_, utc_now};
  Findings findings_{{options_.enforcement == Enforcement::kEvict, options_.proc_folder},
                     transport_,
                     events_,
                     records_};
  NodePublisher publisher_;
  DriverRelease release_{publisher_, options_.contract.release, options_.run_folder};
  Pods pods_{options_.node, transport_};
  KubeletDevices devices_{
      {options_.plugin_folder, options_.memory_resource == MemoryResource::kDevicePlugin},
      options_.contract,
      records_,
      pods_};
  AccessCheck access_;
  ClientTerminator terminator_;
  Isolation isolation_;
  ReservedMemory reserved_{isolation_.library().pages(), records_};
  ProfileControl profile_;
  PodResources pod_resources_{options_.pod_resources_socket};
  const PodProcesses pod_processes_{options_.proc_folder};
  Inventory inventory_;
  std::atomic<bool> failed_ = false;
  // Whether the cards that are offered are known. Until then nothing is published about them.
  std::atomic<bool> settled_ = false;
  const std::unique_ptr<Injector> injector_ = cdi_injector(options_.contract, options_.cdi_folder);
  std::unique_ptr<AllocateHandler> allocate_handler_;
  std::unique_ptr<PreStartHandler> pre_start_handler_;
  std::unique_ptr<RecordCollector> collector_;
  DriftDetector drifts_{{records_, pods_, inventory_, events_},
                        {options_.node, options_.contract, options_.proc_folder}};

  http::Router router_;
  std::unique_ptr<ServiceServer> service_;
  std::thread thread_;
};

}  // namespace mgpu::plugin
