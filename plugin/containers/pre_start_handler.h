// kubelet's PreStartContainer: finds out which container is starting, decides whether it may start
// and with which cards, and injects them. Any doubt is an error, after which kubelet calls again in
// 10 to 15 s.
//
//   Observed --identified--> Decided --> Reserved in memory --> Injected --> Saved --> OK
//      ^         |              |                                  |           |
//      |         +--------------+--- refused, with an Event -------+-----------+
//      +-- a temporary refusal is retried for up to kPreStartTimeout
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/contract/contract.h"
#include "plugin/allocation/decide.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/record_liveness.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

struct PreStartOptions {
  Contract contract;
  NodeName node;
  std::string plugin_folder;            // of kubelet's checkpoint
  std::chrono::milliseconds settle{0};  // delay after the runtime's files have changed
};

// All outlive the handler.
struct PreStartDependencies {
  Records& records;
  Injector& injector;
  Inventory& inventory;
  std::function<ShareLimits()> share_limits;  // not set: nothing enforces shares
  Pods& pods;
  PodResources& pod_resources;
  const PodProcesses& processes;
};

// Any thread.
class PreStartHandler {
 public:
  // `on_refused` is called once for each call that fails.
  PreStartHandler(PreStartOptions options, PreStartDependencies dependencies,
                  std::function<void(const Refusal&)> on_refused);

  // Allows containers to start. Before, all calls are refused temporarily, since their decisions
  // need the records of all allocations.
  void open();
  // Ends all waits.
  void close();
  // Runs `change` while no container is given cards. `share_limits` is asked again for each
  // container whose record is bound afterwards.
  void between_containers(const std::function<void()>& change);

  // Decides on the container that has the devices `ids`. `cancelled` returns true once kubelet no
  // longer waits.
  Decided<void> start(const std::vector<std::string>& ids, const std::function<bool()>& cancelled);

 private:
  // What kubelet, the API server and the driver report at the beginning of an attempt.
  struct Observed {
    DeviceSet devices;
    RecordLiveness liveness;
    Evidence evidence;
    std::vector<CardFacts> cards;
  };

  Decided<void> attempt(const DeviceSet& devices);
  // The steps of an attempt.
  Observed observe(const DeviceSet& devices);
  Decided<kube::Pod> find_pod(const Identity& identity);
  // The pod with the uid of the container, as the watch shows it. None if the uid is not known.
  std::optional<kube::Pod> find_known(const Identity& identity) const;
  Decided<std::vector<Record>> reserve(const Observed& observed,
                                       const std::vector<Identity>& identities,
                                       const std::vector<Decided<kube::Pod>>& pods);
  Decided<Record> decide_one(const Observed& observed, const Identity& identity,
                             const Decided<kube::Pod>& pod) const;
  Decided<bool> inject(const std::vector<Record>& records);
  Decided<void> save(const std::vector<Record>& records);

  // The sandbox of a pod that starts has a process. Warns, once, if it is not visible.
  void check_processes(const PodUid& uid);
  // Logs a problem of `source` when it changes. It is empty if there is none.
  void log_problem(const std::string& source, const std::string& problem);
  // Returns false if the handler was closed.
  bool wait(std::chrono::milliseconds time);

  const PreStartOptions options_;
  const PreStartDependencies dependencies_;
  const std::function<void(const Refusal&)> on_refused_;
  Mutex reserving_;  // one decision at a time, since each depends on the reservations before it
  Mutex mutex_;
  ConditionVariable changed_;
  bool open_ MGPU_GUARDED_BY(mutex_) = false;
  bool closed_ MGPU_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> problems_ MGPU_GUARDED_BY(mutex_);  // last logged, by source
  std::atomic<bool> processes_checked_ = false;
};

}  // namespace mgpu::plugin
