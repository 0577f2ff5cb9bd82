// Decisions about pods and many nodes: where a pod fits, and how good each node is for it.
//
// why_not, fitting_nodes and score hold the lock for kHoldStepsMax steps at a time, and search
// without it, so that others never wait for a search. Nodes may change in between: a decision is
// about its node as it was at some time during the call. Expected placements and reservations for
// nominated pods that ended before `now` are removed first.
//
// Thread-safe. Time is an argument.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "extender/ledger/decision_cache.h"
#include "extender/ledger/ledger_state.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

template <class Decision>
class SteppedDecisions;
struct NodeCopy;

class Decisions {
 public:
  // `state` outlives the decisions.
  explicit Decisions(LedgerState& state) : state_(state) {}

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

  // Computes the scores of recent requests by `price_snapshot`, which is not in use yet, so that
  // the first score() with it finds them. Takes long, and holds the lock for a few nodes at a time.
  // `compute` runs the computation that it is given, on any thread, and returns when it is done;
  // the lock is not held then. Once `go_on` returns false it ends without an effect.
  // `price_snapshot` outlives its use in score().
  using Compute = std::function<void(const std::function<void()>& computation)>;
  void prewarm_scores(const PriceSnapshot& price_snapshot, const std::function<bool()>& go_on,
                      const Compute& compute);

 private:
  // Copies those that are present of the nodes from slot `begin` on, as many slots as there are
  // copies. Returns how many it copied; nothing after the last slot.
  std::optional<std::size_t> copy_nodes(NodeSlot begin, std::span<NodeCopy> copies) const;
  // The requests whose scores are to be prewarmed.
  std::vector<std::shared_ptr<const RequestKey>> scored_requests();
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
  // The same budget, for the next node.
  SearchBudget& unless_ended(SearchBudget& budget, const GpuRequest& request) const;

  LedgerState& state_;
  std::atomic<bool> searches_ended_ = false;
  DecisionCache<Cells<std::optional<Reason>>> fits_ MGPU_GUARDED_BY(state_.mutex);
  DecisionCache<ScoreCache> scores_ MGPU_GUARDED_BY(state_.mutex);
  std::uint64_t longest_hold_ MGPU_GUARDED_BY(state_.mutex) = 0;  // in steps
};

}  // namespace mgpu::extender
