// The nodes of the cluster, their cards, and the claims of pods on them, with totals. Filled from
// the API server (consumers.h) and by bind; a relist restores all of it.
//
// A claim belongs to a pod by its uid. A pod has at most one bound claim, which only the watch adds
// and removes, and any number of assumed ones, each an attempt to bind whose outcome is not known
// yet. Every claim counts in full until it is removed, so that a pod counts twice rather than not
// at all while an outcome is not known.
//
// A bound claim keeps the cards that its pod was bound with (claim.h): later events of the pod
// change its labels and resources, and its drift.
//
// Thread-safe. There is one lock, under which nothing waits. Time is an argument.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/claim_table.h"
#include "extender/ledger/decision_cache.h"
#include "extender/ledger/expected_placements.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_index.h"
#include "extender/ledger/node_record.h"
#include "extender/ledger/nominations.h"
#include "extender/ledger/search_allowances.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

class Ledger;
template <class Decision>
class SteppedDecisions;
struct NodeCopy;

struct Assumed {
  ClaimId id = 0;
  Placement placement;
};

// A copy, for inspection.
struct NodeView {
  Node node;
  std::string problem;  // NodeFacts::problem, or that the node is deleted while it has pods
  std::vector<CardIndex> overfull;  // cards with more in use than their capacity, ascending
  Healths healths;
  bool cordoned = false;            // the node, by its spec
  std::vector<kube::Taint> taints;  // that keep pods from it
  std::vector<ClaimView> claims;
};

// What an administrator has to repair on a node that the API server has.
struct NodeProblem {
  NodeName node;
  std::string problem;              // NodeFacts::problem; may be empty
  std::vector<CardIndex> overfull;  // cards with more in use than their capacity
};

// Differs from an earlier one of the same node if its cards, its problem or the claims on it have
// changed.
struct NodeVersion {
  NodeSlot slot = 0;
  std::uint64_t changes = 0;
  bool operator==(const NodeVersion&) const = default;
};

// A copy, for a decision about one pod without the lock.
struct NodeForPod {
  Node node;
  // The node in which what is reserved for nominated pods is used; empty if nothing is.
  std::optional<Node> with_reservations;
  Healths healths;

  const Node& available() const { return with_reservations ? *with_reservations : node; }
};

struct Counts {
  std::size_t nodes = 0;
  std::size_t cards = 0;
  std::size_t assumed = 0;
  std::size_t bound = 0;
  std::size_t drifting = 0;  // claims with drift
  std::size_t overfull = 0;  // cards with more used than their capacity
  std::size_t expected = 0;
  std::size_t nominated = 0;           // pods for which cards are reserved
  std::uint64_t search_steps = 0;      // that pods of several containers have taken
  std::uint64_t searches_limited = 0;  // decisions that the allowance of their namespace ended
};

// Valid only within Ledger::read, which holds the lock. (The thread-safety analysis cannot see
// that.)
class View {
 public:
  // Null if the API server has no such node, or the watch has not delivered it yet.
  const Node* find(std::string_view node) const MGPU_NO_THREAD_ANALYSIS;
  // A copy in which cards that are reserved for nominated pods are used. Empty if `find` is
  // null.
  std::optional<Node> find_for(std::string_view node,
                               const DecidedPod& pod) const MGPU_NO_THREAD_ANALYSIS;
  // The claims on a node, bound and assumed; the pointers are valid as long as the view.
  std::vector<const ClaimView*> claims_on(std::string_view node) const MGPU_NO_THREAD_ANALYSIS;
  // A non-GPU pod on that node; empty if there is no such pod there.
  std::optional<NonGpuPod> non_gpu_on(std::string_view node,
                                      const PodUid& uid) const MGPU_NO_THREAD_ANALYSIS;
  // The pod is known, and not on that node.
  bool elsewhere(std::string_view node, const PodUid& uid) const MGPU_NO_THREAD_ANALYSIS;

 private:
  friend class Ledger;
  explicit View(Ledger& ledger) : ledger_(ledger) {}
  Ledger& ledger_;
};

class Ledger {
 public:
  // --- nodes -------------------------------------------------------------------------------------

  // After a relist: removes all other nodes, then applies these. Reads may run in between. The same
  // holds for replace_pods. Neither may run concurrently with another update of nodes or pods.
  void replace_nodes(std::vector<NodeFacts> nodes);
  // Adds or changes the node. If the cards changed, the claims are counted again and expected
  // placements are removed.
  void apply_node(NodeFacts node);
  // The claims of its pods stay until the pods are removed, since the node may return.
  void remove_node(const NodeName& node);

  // --- pods --------------------------------------------------------------------------------------

  // After a relist: removes all other bound claims and non-GPU pods. Assumed claims of other pods
  // stay, since the list may be older than their bind. Returns the changes of drift, at most
  // kDriftChangesMax: the next event of a pod that is left out returns its change.
  // Not analyzed: only its steps hold the lock.
  std::vector<DriftChange> replace_pods(
      std::vector<Claim> claims, std::vector<NonGpuPod> non_gpu = {}) MGPU_NO_THREAD_ANALYSIS;
  // Confirms an assumed claim of the same uid, and removes other attempts of the pod. An attempt on
  // the same node with other cards stays until its outcome is known: it may be the binding, and the
  // annotations edited since.
  std::optional<DriftChange> apply_pod(Claim claim);
  // Counts in Node::resources_used until remove_pod. Claims of the pod are removed.
  void apply_non_gpu(NonGpuPod pod);
  // For a pod that has finished or was deleted: removes it and its attempts.
  void remove_pod(const PodUid& uid);

  // --- bind --------------------------------------------------------------------------------------

  // Places `claim`, which has no placement, on its node and counts it as used, in one step, also
  // where the pod has other claims. Cards that are reserved for nominated pods are not free to it.
  // A refusal changes nothing. The pod's expected placement is removed in any case, and what is
  // reserved for it once it is placed: the same cards do not become free. `price_snapshot` may be
  // null.
  std::variant<Assumed, Reason> assume(Claim claim, const Policy& card_policy, Instant now,
                                       const PriceSnapshot* price_snapshot = nullptr);
  // The API server accepted the binding: removes the pod's other attempts. The claim stays assumed
  // until the watch shows the pod bound. An id that no longer exists is ignored: the watch was
  // faster.
  void bound(ClaimId id, Instant now);
  // Removes the claim of an attempt that did not bind the pod. An id that no longer exists is
  // ignored, and so is a bound claim, which only the watch releases.
  void forget(ClaimId id);
  // The same, and the pod may be bound there soon: if it is bound with others of a group, its cards
  // are reserved for it for kGroupRetryLife, since the others may be bound already, but at most
  // for kGroupRetriesLife after the first such bind.
  void forget_for_now(ClaimId id, Instant now);
  // The pod was read from the API server, bound as in `claim`, which replaces all assumed claims of
  // the pod, and stays assumed until the watch shows the pod. If the watch has shown it bound
  // before, only the assumed claims are removed.
  void assume_bound(Claim claim, Instant now);
  struct AssumedClaim {
    ClaimId id;
    PodRef pod;
    PodUid uid;
    NodeName node;
  };
  // Returns the claims that were assumed, or accepted by the API server, before `before`. Their
  // pods are to be read from the API server.
  std::vector<AssumedClaim> assumed_before(Instant before) const;

  // --- expected placements -----------------------------------------------------------------------

  // Counts in Card::expected until `until`, or until the pod is bound or removed or has another
  // expected placement, or the node's cards change. At kExpectedPlacementsMax, the one that ends
  // first is removed. A node that is not present is ignored.
  void expect(const PodUid& uid, const NodeName& node, const GpuRequest& request,
              const Placement& placement, Instant now, Instant until);
  void end_expectation(const PodUid& uid);

  // --- nominated pods ----------------------------------------------------------------------------

  // preempt answered these nodes for the pod, which has been nominated for the node `nominated`, or
  // for none. What the pod is to get on the node that it is nominated for is not available to pods
  // of equal or lower priority until it is bound, or until `until` (nominations.h).
  void offer_nomination(const DecidedPod& pod, std::vector<NominatedPlacement> placements,
                        const NodeName& nominated, Instant until);
  // filter answered this node. What the pod is to get there is reserved in the same way, once it is
  // nominated for the node. With `counted_until` it is reserved at once, and until then if the pod
  // is not nominated by then.
  void reserve(const DecidedPod& pod, NominatedPlacement placement, const NodeName& nominated,
               Instant until, std::optional<Instant> counted_until);
  struct Reservation {
    DecidedPod pod;
    NominatedPlacement placement;
  };
  // Reserves the cards of all pods in this way, and returns answers(). Nothing if one of them
  // was answered after `answers`: kube-scheduler may be about to bind what filter has answered.
  std::optional<std::uint64_t> reserve_all(std::vector<Reservation> pods, std::uint64_t answers,
                                           Instant until, Instant counted_until);
  // How often filter and preempt have answered a pod.
  std::uint64_t answers() const;
  // A bind of a pod of the group has begun: what filter has answered for the others is reserved in
  // the same way.
  void keep_group(const std::string& group, Instant now);
  // Ends what is reserved for the pod, which is not pending any more.
  void end_nomination(const PodUid& uid);
  // Notes that the watch shows the pod nominated for a node, or for none.
  void nominate(const PodUid& uid, const NodeName& node);
  void replace_nominated(const std::vector<Nominated>& nominated);

  // The nodes that filter has answered for pods of the group; some may be named twice.
  std::vector<NodeName> nodes_of_group(const std::string& group) const;

  // --- unsettled pods ----------------------------------------------------------------------------

  // A binding of the pod that an earlier process has sent may still happen, on any node: `most` is
  // not available on any card to other pods, until the pod is bound, finished or deleted, or until
  // `until`. With a group that is so if the list of pods shows one of the group that is bound, and
  // they are available to the group.
  void keep_everywhere(const PodUid& uid, const Share& most, Instant until,
                       const std::string& group = {});
  void end_everywhere(const PodUid& uid);
  // filter has refused the pod: what is kept for it as a member of a group is of no use.
  void end_kept_for_group(const PodUid& uid);

  // --- decisions ---------------------------------------------------------------------------------
  //
  // These hold the lock for kHoldStepsMax steps at a time, and search without it, so that others
  // never wait for a search. Nodes may change in between: a decision is about its node as it was at
  // some time during the call. Expected placements and reservations for nominated pods that ended
  // before `now` are removed first.

  // The result of extender::why_not for each of `nodes`, which share kFilterStepsMax steps. Nodes
  // that have not changed since the last pod with an equal request are not examined again.
  // kNominated for a pod that would fit if nothing were reserved for nominated pods.
  std::vector<std::optional<Reason>> why_not(std::span<const std::string_view> nodes,
                                             const GpuRequest& request, Instant now,
                                             const DecidedPod& pod = {});
  // Up to `most` of all nodes on which the pod fits, with the CPU and main memory that it requests
  // beside cards, and that its rules allow. O(nodes).
  std::vector<std::string> fitting_nodes(const GpuRequest& request, const NodeResources& resources,
                                         const kube::NodeRules& rules, std::size_t most,
                                         Instant now, const DecidedPod& pod);
  // For each of `nodes` the placement by `policy.card` and its score by `policy.node`, in the same
  // way, with kScoreStepsMax steps. With policies for which Policy::per_pod is true every node is
  // examined.
  std::vector<Scored> score(std::span<const std::string_view> nodes,
                            const PlacementContext& context, const PolicyChoice& policy,
                            Instant now, const DecidedPod& pod = {});
  // Begins no search on another node from now on: pods of several containers do not fit, and no
  // scores are prewarmed. So an end of the process waits for the search on one node at most.
  void end_searches() { searches_ended_ = true; }
  bool searches_ended() const { return searches_ended_; }
  // The steps of one call of preempt for all its nodes, and those that it took. They are of the
  // allowance of the namespace if the pod has several containers that request cards.
  SearchBudget preemption_steps(const GpuRequest& request, const DecidedPod& pod, Instant now);
  void charge_steps(const GpuRequest& request, const DecidedPod& pod, std::uint32_t spent,
                    Instant now);
  // The most steps that why_not and score have taken under the lock at one time. For tests.
  std::uint64_t longest_hold() const;

  // --- read --------------------------------------------------------------------------------------

  // Runs `read` under the lock; it must only compute. Expected placements that ended before `now`
  // are removed first.
  void read(Instant now, const std::function<void(const View&)>& read);

  // Visits every node that the API server has, in no order, under the lock for kNodeCopiesMax nodes
  // at a time. Nodes that are added or removed meanwhile may be left out. `go_on` is called in
  // between; once it returns false, the visit ends.
  void visit_in_steps(
      const std::function<void(const Node&)>& visit,
      const std::function<bool()>& go_on = [] { return true; }) const;

  // Computes the scores of recent requests by `price_snapshot`, which is not in use yet, so that
  // the first score() with it finds them. Takes long, and holds the lock for a few nodes at a time.
  // `compute` runs the computation that it is given, on any thread, and returns when it is done;
  // the lock is not held then. Once `go_on` returns false it ends without an effect.
  // `price_snapshot` outlives its use in score().
  using Compute = std::function<void(const std::function<void()>& computation)>;
  void prewarm_scores(const PriceSnapshot& price_snapshot, const std::function<bool()>& go_on,
                      const Compute& compute);

  // Includes nodes that the API server does not have while pods are bound to them.
  std::vector<NodeName> node_names() const;
  std::size_t node_count() const;
  // Calls `visit` for each of node_names(), in no order. It must only compute, since it runs under
  // the lock, which is released in between.
  void visit_versions(
      const std::function<void(const NodeName& node, const NodeVersion& version)>& visit) const;
  std::optional<NodeView> node(const NodeName& name) const;
  // Nothing if the API server has no such node.
  std::optional<NodeForPod> node_for(std::string_view name, const DecidedPod& pod) const;
  // Returns what keeps a pod with these rules from a node. Nothing if the API server has no such
  // node.
  std::optional<Gate> gate_of(std::string_view node, const kube::NodeRules& rules) const;
  // Returns the bound one of several claims of this name, else the latest attempt.
  std::optional<ClaimView> claim(const PodRef& pod) const;
  // Claims with drift, the first `most` in the order of pods.
  std::vector<ClaimView> drifting(std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  // The first `most` in no order.
  std::vector<NodeProblem> nodes_with_problems(std::size_t most) const;
  Counts counts() const;
  // Increases whenever cards may have become free: a claim was released, or a node's cards are new
  // or changed, or are no longer reserved for a nominated pod. The second form ends first what ends
  // before `now`.
  std::uint64_t releases() const;
  std::uint64_t releases(Instant now);
  // Increases whenever a node has other cards, or offers pods something else.
  std::uint64_t card_changes() const;

 private:
  friend class View;
  struct NonGpu {
    NodeRecord* record;
    NodeResources resources;
    bool anti_affinity;
  };

  // Copies those that are present of the nodes from slot `begin` on, as many slots as there are
  // copies. Returns how many it copied; nothing after the last slot.
  std::optional<std::size_t> copy_nodes(NodeSlot begin, std::span<NodeCopy> copies) const;
  // The requests whose scores are to be prewarmed.
  std::vector<std::shared_ptr<const RequestKey>> scored_requests();
  // Visits every record, also those of nodes that are gone while pods are bound to them. `lock` is
  // released after every kNodesHeldMax slots, so that records may be added and removed in between.
  // Not analyzed, because `lock` holds mutex_, and the analysis cannot connect the two.
  void each_record(MutexLock& lock, const std::function<void(NodeRecord&)>& visit) const
      MGPU_REQUIRES(mutex_) MGPU_NO_THREAD_ANALYSIS;
  // `cells_of` is called under the lock. The steps of `budget` are those of the allowance of the
  // pod's namespace, and the decisions have taken what is missing afterwards.
  template <class Decision>
  std::vector<Decision> decide_in_steps(SteppedDecisions<Decision> decisions, Instant now,
                                        const std::function<Cells<Decision>*()>& cells_of,
                                        const GpuRequest& request, const DecidedPod& pod,
                                        SearchBudget& budget);

  // The pod was refused on the node because of what is kept for others. It has its turn there
  // unless the budget, which is 0 for a pod that fits elsewhere, is too small.
  void wait_for_turn(std::string_view node, const GpuRequest& request, const DecidedPod& pod,
                     SearchBudget& budget);

  // Each of these leaves totals and indices consistent.
  NodeRecord* find(std::string_view node) const MGPU_REQUIRES(mutex_);
  // Null if the API server has no such node, though pods may be on it.
  NodeRecord* find_present(std::string_view node) const MGPU_REQUIRES(mutex_);
  NodeRecord& record_of(const NodeName& node) MGPU_REQUIRES(mutex_);
  void erase_if_empty(NodeRecord& record) MGPU_REQUIRES(mutex_);
  void apply(NodeFacts facts) MGPU_REQUIRES(mutex_);
  void remove(NodeRecord& record) MGPU_REQUIRES(mutex_);
  Entry& insert(Claim claim, Phase phase, Instant touched) MGPU_REQUIRES(mutex_);
  void release(Entry& entry) MGPU_REQUIRES(mutex_);
  void release_all(const PodUid& uid) MGPU_REQUIRES(mutex_);
  // The watch shows the pod bound: this claim, with the cards that the pod was bound with, replaces
  // the others of the pod.
  Entry& confirm(Claim claim) MGPU_REQUIRES(mutex_);
  // The same budget, for the next node.
  SearchBudget& unless_ended(SearchBudget& budget, const GpuRequest& request) const;
  // A copy in which what is reserved for nominated pods is used.
  Node with_reservations(const Node& node, const DecidedPod& pod) const MGPU_REQUIRES(mutex_);
  void set_non_gpu(NonGpuPod pod) MGPU_REQUIRES(mutex_);
  void remove_non_gpu(const PodUid& uid) MGPU_REQUIRES(mutex_);

  std::atomic<bool> searches_ended_ = false;
  mutable Mutex mutex_;
  std::unordered_map<std::string, NodeRecord, TextHash, TextEqual> nodes_ MGPU_GUARDED_BY(mutex_);
  NodeIndex index_ MGPU_GUARDED_BY(mutex_);  // of nodes_
  ClaimTable claims_ MGPU_GUARDED_BY(mutex_);
  std::map<PodUid, NonGpu> non_gpu_ MGPU_GUARDED_BY(mutex_);
  ExpectedPlacements expected_ MGPU_GUARDED_BY(mutex_);
  Nominations nominations_ MGPU_GUARDED_BY(mutex_);
  std::uint64_t releases_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t card_changes_ MGPU_GUARDED_BY(mutex_) = 0;
  DecisionCache<Cells<std::optional<Reason>>> fits_ MGPU_GUARDED_BY(mutex_);
  DecisionCache<ScoreCache> scores_ MGPU_GUARDED_BY(mutex_);
  SearchAllowances allowances_ MGPU_GUARDED_BY(mutex_);
  std::uint64_t longest_hold_ MGPU_GUARDED_BY(mutex_) = 0;  // in steps
};

}  // namespace mgpu::extender
