// kube-scheduler as an extender sees it: it filters and binds one pod after another, with the bind
// of a pod and the filter of the next overlapping; pods that do not fit wait for an event or five
// minutes; failed binds are tried again after a backoff that doubles; preemption deletes the
// victims that the extender names.
//
// The pods of a group are scheduled in one cycle (scheduler_groups.cc): the extender filters one
// after another, and they are bound only if there is room for as many as the group needs. A group
// that does not fit is tried again after a backoff, without an event. Groups by label wait in
// Permit (scheduler_permit.cc).
//
// After kubernetes pkg/scheduler/{schedule_one.go,schedule_one_podgroup.go,extender.go,
// backend/queue,framework/preemption}.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "common/kube/watch/reflector.h"
#include "test/simulation/groups.h"
#include "test/simulation/link.h"

namespace mgpu::simulation {

class Scheduler {
 public:
  using Answer = std::function<void(int status, const std::string& body)>;
  // Calls a verb of the extender; it may never be answered.
  // `process` has answered, which need not be the leader; 0 if none runs.
  using AnswerOf = std::function<void(int status, const std::string& body, int process)>;
  using CallExtender =
      std::function<void(const std::string& verb, std::string body, AnswerOf done)>;

  struct Reports {
    // The extender is called to bind the pod.
    std::function<void(const PodUid& uid, const std::string& node)> binds;
    // The extender has answered that the pod is bound.
    std::function<void(const PodUid& uid, const std::string& node)> bound;
    // The extender has answered a verb about the pod, or not in time: status 0.
    std::function<void(const PodUid& uid, const std::string& verb, int status,
                       const std::string& body, int process)>
        answered;
  };

  Scheduler(kube::MemoryApiServer& server, FaultQueue& faults, const Contract& contract,
            CallExtender extender, Reports reports, bool reprieves);

  Link& link() { return link_; }
  // The nodes on which the sums of what is requested leave room for the pod.
  std::vector<std::string> nodes_with_room(const PodUid& uid) const;
  // Scheduling cycles so far.
  int cycles() const { return cycles_; }

 private:
  // The two resources that the scheduler sums.
  struct Amounts {
    std::int64_t core = 0;
    std::int64_t memory = 0;
  };
  // When a pod, or a group, is tried again.
  struct Retry {
    Instant until{};
    int attempts = 0;
  };
  struct Pod {
    kube::Pod pod;
    std::string json;
    Amounts amounts;
    std::optional<PodGroup> group;
    std::string assumed_node;    // bound in the cache before the watch shows it
    std::string nominated_node;  // where pods were evicted for it
    bool busy = false;           // in a scheduling or a binding cycle
    bool waits_for_event = false;
    bool waits_in_permit = false;
    Instant since{};  // of these two
    Retry retry;

    const std::string& node() const { return pod.node_name.empty() ? assumed_node : pod.node_name; }
    // It waits to be scheduled.
    bool queued() const {
      return node().empty() && !busy && !pod.finished() && !pod.metadata.being_deleted &&
             amounts.core > 0;
    }
  };
  // What the extender answers about a pod.
  struct Selected {
    bool answered = false;
    std::string node;                  // or none
    std::vector<std::string> refused;  // nodes on which pods could be evicted for it
  };
  using OnSelected = std::function<void(const Selected&)>;
  struct GroupCycle {
    PodGroup group;
    std::vector<PodUid> pods;
    std::size_t asked = 0;    // of the pods
    std::size_t placed = 0;   // of the pods, and those that were placed before
    std::vector<PodUid> fit;  // assumed in this cycle
    std::size_t left() const { return pods.size() - asked; }
  };

  kube::Consumer<Pod> pod_consumer();
  kube::Consumer<kube::Node> node_consumer();
  void apply(Pod pod);
  void remove(const PodUid& uid);
  // Something has changed that may make a pod fit.
  void wake_all();
  void run_later();
  void run();
  std::optional<PodUid> next_pod();
  // By other pods.
  Amounts used_on(const std::string& node, const PodUid& except) const;
  void back_off(Retry& retry);
  void back_off(Pod& pod);

  // The extender filters the nodes, and scores them where more than one is left.
  void select(const PodUid& uid, const std::vector<std::string>& nodes, OnSelected done);
  void on_filtered(const PodUid& uid, const std::string& body, const OnSelected& done);
  void prioritize(const PodUid& uid, const std::vector<std::string>& nodes, const OnSelected& done);
  void schedule(const PodUid& uid);
  void bind(const PodUid& uid, const std::string& node);
  void on_bound(const PodUid& uid, bool bound);
  bool waits_for_victims(const Pod& pod) const;
  void preempt(const PodUid& uid, const std::vector<std::string>& nodes);
  void on_preempted(const PodUid& uid, const nlohmann::json& reply);
  void evict(const std::string& victim_uid);
  void nominate(const PodUid& uid, const std::string& node);
  void end_cycle(const PodUid& uid, bool waits_for_event);

  // --- groups
  GroupCycle cycle_of(const PodGroup& group) const;
  void schedule_group(const PodGroup& group);
  void place_next(GroupCycle cycle);
  int placed_of(const PodGroup& group) const;
  std::vector<PodUid> waiting_in_permit(const PodGroup& group) const;
  void permit(const PodUid& uid, const std::string& node);
  void reject_waiting(const PodGroup& group);
  void reject_unless_few_are_missing(const PodGroup& group);
  void end_group_cycle(const GroupCycle& cycle, bool answered);

  // The answer, or status 0 once the time is over.
  void call(const std::string& verb, const PodUid& uid, std::string body, Duration timeout,
            Answer done);
  Pod* find(const PodUid& uid);
  Executor& executor() { return link_.executor(); }

  const Contract& contract_;
  const CallExtender extender_;
  const Reports reports_;
  // No victims are proposed on a node whose sums suffice.
  const bool reprieves_;
  Link link_;
  std::map<PodUid, Pod> pods_;
  std::map<std::string, Retry> groups_;  // by name
  std::map<std::string, kube::Node> nodes_;
  bool in_cycle_ = false;
  int cycles_ = 0;
  std::unique_ptr<kube::Reflector> pod_reflector_;
  std::unique_ptr<kube::Reflector> node_reflector_;
  std::unique_ptr<kube::Reflector> capacity_reflector_;
  CallbackGuard callbacks_;
};

}  // namespace mgpu::simulation
