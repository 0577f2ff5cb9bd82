// What is true in the simulated cluster, by the API server's own history and by what runs on the
// nodes, and whether a promise is broken. It is not part of the programs under test, and nothing
// delays what it learns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/objects.h"
#include "test/simulation/groups.h"

namespace mgpu::simulation {

class Invariants {
 public:
  // Both outlive it. `has_policies`: nobody but the binding writes the cards of a pod. `is_calm`:
  // there are no faults.
  Invariants(kube::MemoryApiServer& server, const Contract& contract, bool has_policies,
             bool is_calm);

  // A container starts with these cards.
  void start_container(const PodUid& uid, const std::string& container, const std::string& node,
                       const std::vector<CardIndex>& cards);
  // kube-scheduler gets the response that the pod is bound to the node.
  void report_bound(const PodUid& uid, const std::string& node);
  // kube-scheduler begins to bind the pod to the node.
  void note_binding(const PodUid& uid, const std::string& node);
  // When the pod was bound.
  std::optional<Instant> bound_at(const PodUid& uid) const;
  // All containers of the pod on this node have ended.
  void end_containers(const PodUid& uid);

  struct ExtenderAnswer {
    std::string verb;
    int status = 0;  // 0: no answer in time
    std::string body;
    int process = 0;                // that has answered
    bool watches_are_late = false;  // of the leader
  };
  // kube-scheduler gets an answer about the pod.
  void report_answer(const PodUid& uid, const ExtenderAnswer& answer);
  // The extender writes an Event. No pod is evicted for one of equal or lower priority, or for
  // one whose preemptionPolicy is Never. Without faults, none is evicted either
  // - for a pod that fits a node once the pods have ended that are terminating there, or that were
  //   evicted for it before;
  // - where the others that are evicted for the pod at the same time suffice.
  void report_event(const std::string& event);
  int evicted() const { return evicted_; }
  void note_scheduler_killed();
  void note_scheduler_stopped(Duration time) {
    scheduler_stops_until_ = std::max(scheduler_stops_until_, executor_.now() + 2 * time);
  }
  // Cards of the node fail or recover, or the node is removed.
  void note_cards_changed(const std::string& node) { cards_changed_[node] = executor_.now(); }
  // After quiet: no group is bound in part. There are five exceptions:
  // - one of its pods was deleted while the group was being bound: the others go on without it;
  // - one of those that were bound was deleted or has ended before the others were bound;
  // - a call about one of its pods was lost once the first one was to be bound: kube-scheduler got
  //   no answer to it, or another process of the extender leads, or kube-scheduler was killed or
  //   did not run, or could not nominate a pod that waited in Permit, or the leader did not learn
  //   of that in time, as its watch had failed or was late: the API server may not answer it for
  //   half a minute, and cards are not kept so long for a pod that perhaps waits no more;
  // - cards of the node of one of its pods had changed lately when its bind was answered;
  // - a pod of higher priority was bound to, or got cards kept on, the node of one of its pods.
  void check_groups();
  int groups_in_part() const;
  int groups() const { return static_cast<int>(groups_.size()); }
  int groups_bound() const;

  // Of all events of the watch of pods.
  std::uint64_t digest() const { return digest_; }
  // The first broken promise, as one sentence.
  const std::optional<std::string>& violation() const { return violation_; }
  void violate(std::string sentence) {
    if (!violation_) violation_ = std::move(sentence);
  }

 private:
  using Card = std::pair<std::string, CardIndex>;

  // A pod as it was bound.
  struct BoundPod {
    PodRef ref;
    std::string node;
    GpuRequest request;
    std::optional<Placement> placement;
    // The values that the annotation of each container has had. Without the policies it can change.
    std::map<std::string, std::set<std::string>> cards_named;
    // The cards with which each container started first. A restarted container has the same.
    std::map<std::string, std::vector<CardIndex>> cards_started;
    Instant since{};
    bool by_binding = false;  // not by its creator
    bool ended = false;
    std::optional<Instant> leaves{};  // since it is terminating, or has ended
    std::string evicted_for{};        // the uid of a pod
  };
  struct Running {
    PodUid uid;
    std::string container;
    Share share;
  };

  struct GroupState {
    int min_count = 1;
    std::map<PodUid, std::string> pods;  // that have been bound, and their names
    std::int32_t priority = 0;
    bool by_label = false;
    std::set<std::string> waiting;  // the names of those that have not
    std::optional<Instant> first_bound;
    std::optional<Instant> last_deleted;  // of those that were not bound
    int filtered_by = 0;                  // the process that has answered filter last
    int process = 0;                      // that has answered the first bind; 0: none has
    bool lost = false;                    // as check_groups() says
    bool is_bound() const { return static_cast<int>(pods.size()) >= min_count; }
    bool in_part() const { return first_bound && !is_bound(); }
  };

  void on_line(std::string_view line);
  void note_in_digest(std::string_view text);
  void on_pod(const kube::Pod& pod, bool deleted);
  void note_bound(const kube::Pod& pod, bool by_binding);
  bool is_excused(const std::string& node) const;
  void note_taken(const kube::Pod& pod);
  void note_bind_answer(const PodUid& uid, GroupState& group, const ExtenderAnswer& answer);
  void note_in_group(const kube::Pod& pod, bool deleted);
  void note_cards(const kube::Pod& pod, BoundPod& bound);
  void note_nominated(const kube::Pod& pod, bool deleted);
  void check_capacity(const std::string& node);
  // Where there are no faults.
  void check_need(const PodUid& victim, const kube::Pod& preemptor);
  bool fits(const kube::Pod& pod, const std::string& node, const PodUid& spared = {}) const;
  bool is_kept(const std::string& node, const kube::Pod& preemptor) const;

  Executor& executor_;
  const Contract& contract_;
  const bool has_policies_;
  const bool is_calm_;
  std::set<PodUid> seen_unbound_;
  std::map<PodUid, BoundPod> bound_;
  std::map<Card, std::vector<Running>> running_;
  std::map<std::string, GroupState> groups_;
  std::map<PodUid, std::string> group_of_;
  std::map<PodUid, std::int32_t> priorities_;  // of all pods
  int evicted_ = 0;
  std::set<std::string> never_preempt_;  // uids of pods, and names of groups
  // What filter has answered about a pod of a group that is not bound.
  struct Promise {
    std::string node;
    Instant since{};
    int process = 0;
    bool shown = false;   // the pod is nominated for the node
    bool taken = false;   // a pod of higher priority was, or is being, bound to the node
    bool unseen = false;  // the watches of the leader have been late since then
  };
  std::map<PodUid, Promise> promised_;
  // The nodes on which filter has refused a pod, and why.
  struct Refused {
    Instant at{};
    std::map<std::string, std::string> nodes{};
  };
  std::map<PodUid, Refused> refused_;
  std::map<PodUid, kube::Pod> unbound_;
  // The node that a pod is nominated for, and since when it is not any more.
  std::map<PodUid, std::pair<std::string, Instant>> nominated_;
  std::map<std::string, Instant> cards_changed_;
  Instant scheduler_stops_until_{};
  std::optional<std::string> violation_;
  std::uint64_t digest_ = 0xcbf29ce484222325;
  std::unique_ptr<kube::Stream> stream_;
};

// "0,1"
std::string cards_text(const std::vector<CardIndex>& cards);

}  // namespace mgpu::simulation
