// kubelet's PreStartContainer: finds out which container starts, decides whether it may and with
// which cards, and puts them in place. Any doubt is an error: kubelet asks again after 10 to 15 s.
//
//   Gathering --decided--> Kept in memory --> Injected --> Settled --> On disk --> answer: start
//     ^    |                        any of them fails: refused, with an Event on the pod
//     +----+ refused for now, for at most kPreStartTimeout
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/contract/contract.h"
#include "plugin/allocation/decide.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps.h"
#include "plugin/containers/limits.h"
#include "plugin/containers/pods.h"
#include "plugin/containers/record_liveness.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/pod_resources.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

struct StarterSettings {
  Contract contract;
  NodeName node;
  std::string plugin_folder;  // of kubelet's checkpoint
  std::chrono::milliseconds settle{0};
};

// All outlive the starter.
struct StarterParts {
  Records& records;
  Injector& injector;
  Inventory& inventory;
  const Mps* mps;  // null: nothing enforces shares
  Pods& pods;
  PodResources& pod_resources;
};

// Any thread.
class PreStartHandler {
 public:
  // Told of each final refusal.
  using OnRefused = std::function<void(const Refusal&)>;

  PreStartHandler(StarterSettings settings, StarterParts parts, OnRefused on_refused);

  // From now on containers are started; before, they are refused for now. Records must be complete.
  void open();
  // Ends every wait.
  void close();

  // Waits at most kPreStartBudget.
  Decided<void> start(const std::vector<std::string>& ids, const std::function<bool()>& cancelled);

 private:
  using Records = std::vector<Record>;

  // What was gathered for one decision.
  struct Seen {
    DeviceSet devices;
    Evidence evidence;
    RecordLiveness presence;
    std::vector<CardFacts> cards;
  };
  struct Candidate {
    Identity identity;
    Decided<kube::Pod> pod;
  };

  Decided<Records> attempt(const DeviceSet& devices);
  // These wait.
  Seen gather(const DeviceSet& devices);
  void gather_checkpoint(Seen& seen);
  // Logs a source's problem when it changes; "" is none.
  void note_problem(const std::string& source, const std::string& problem);
  Decided<kube::Pod> pod_of(const Identity& identity);
  // These decide, and keep what they decided.
  Decided<Records> judge(const Seen& seen, const std::vector<Candidate>& candidates);
  Decided<Record> judge_one(const Seen& seen, const Candidate& candidate);
  // These act.
  Decided<void> act(const Records& records);
  Result<bool> inject(const Record& record);
  Decided<void> attempt_and_act(const DeviceSet& devices);
  bool wait(std::chrono::milliseconds time);  // false: closed

  const StarterSettings settings_;
  const StarterParts parts_;
  const OnRefused on_refused_;
  Mutex deciding_;  // one decision at a time: each counts what the one before took
  Mutex mutex_;
  ConditionVariable changed_;
  bool open_ MGPU_GUARDED_BY(mutex_) = false;
  bool closed_ MGPU_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> problems_
      MGPU_GUARDED_BY(mutex_);  // by source, as last logged
};

}  // namespace mgpu::plugin
