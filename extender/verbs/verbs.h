// filter, prioritize and preempt. They compute, and change nothing but the expected placement of
// their own pod, the cards that are reserved for it, and what it was answered; the fourth verb,
// bind, is in extender/bind/binder.h.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "extender/learning/current_prices.h"
#include "extender/learning/workload_window.h"
#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/placement/policy.h"
#include "extender/verbs/answered_nodes.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

// Constant after construction.
struct VerbOptions {
  Contract contract;
  MiB min_memory{256};
  // The least compute of a share on every node. A node with MPS publishes a least share of its own
  // (NodeProfile::minimum), so that the containers of a card are no more than its MPS clients.
  Percent min_core{1};
  PolicyChoice policy;  // of pods that do not choose one
  // With how many of the nodes that fit filter answers: the best ones. 0: with all of them. With 1
  // kube-scheduler calls neither prioritize nor its own score plugins.
  std::size_t candidate_nodes = 1;
  bool ties_by_name = false;        // TieOrder without a number of the pod
  bool expected_placements = true;  // false only to measure what they are worth
  Duration expectation_life = kExpectedPlacementLife;
  Duration nomination_life = kNominationLife;
};

// What decisions read and record. It refers to objects that outlive it.
struct VerbContext {
  const VerbOptions& options;
  Ledger& ledger;
  const DisruptionBudgets& budgets;
  const CurrentPrices& prices;        // policies have no prices before the first are published
  WorkloadWindow* window = nullptr;   // records every filtered pod; may be null
  AnsweredNodes* answered = nullptr;  // what filter has answered; may be null
};

// Answers with the best VerbOptions::candidate_nodes of the nodes that fit, without reasons, which
// kube-scheduler reads only if no node fits. All are answered for a pod that leaves the choice to
// kube-scheduler (leaves_choice in pod_request.h). If none fits, or all are answered, every node
// that does not fit is listed with the sentence of its reason (reason.h); all nodes, with the
// sentence of read_pod_request, if the pod is invalid. A non-GPU pod fits everywhere. With one node
// left filter records the expected placement, because kube-scheduler does not call prioritize then,
// and offers its cards for the time in which the pod is nominated for the node
// (ledger/nominations.h). A node that has refused the pod after an earlier answer comes after all
// others (answered_nodes.h). The pod is added to the learned workload. A bound pod, whose resize
// waits, has its cards: it fits on its node alone.
FilterReply filter(const ExtenderArgs& args, const VerbContext& context, Instant now);

// Scores the nodes from 0 to 10. The policy's best node gets 10 and is recorded as the pod's
// expected placement, as filter does it. Other feasible nodes get 1 to 9 in policy order.
// Infeasible nodes, and nodes that are feasible only if other pods' expected placements are
// ignored, get 0. For a pod that leaves the choice to kube-scheduler all others get 10, and nothing
// is recorded.
//
// For a non-GPU pod every node gets 0, unless the policy ranks such pods. Then all nodes without
// cards that are as good as the best get 10, and nothing is recorded.
std::vector<HostScore> prioritize(const ExtenderArgs& args, const VerbContext& context,
                                  Instant now);

// Does what prioritize does, for non-GPU pods that the policy ranks. For all other pods the list is
// empty, which kube-scheduler reads as zeros: GPU pods are scored by another call.
std::vector<HostScore> prioritize_non_gpu(const ExtenderArgs& args, const VerbContext& context,
                                          Instant now);

// Returns for each node the proposed victims if they free the cards. Otherwise the victims are the
// cheapest set of bound lower-priority pods (placement/preemption/preemption.h) that contains or
// replaces the proposal so that cards, CPU, main memory and the number of pods suffice (victims.h).
// Nodes that are unknown, where no such set is found, or that would have no victims are left out.
// For a non-GPU pod the proposal is returned, and for a bound pod that on its node: it has its
// cards.
//
// The cards that the pod is to get on the node for which it is nominated then are reserved for it
// (ledger/nominations.h).
std::vector<NodeVictims> preempt(const PreemptionArgs& args, const VerbContext& context,
                                 Instant now);

// Pods that are no victims.
struct Spared {
  std::set<PodUid> pods;
  std::map<std::string, bool> groups;  // whether the pods of a PodGroup are, as "team/train"
  bool other_groups = false;           // those of all other PodGroups
};

// The pods that are to be evicted so that others get their cards.
struct ChosenVictims {
  struct Preemptor {
    kube::Pod pod;
    NodeName node;  // where it is to get its cards
  };
  struct Victim {
    PodRef pod;
    PodUid uid;
    NodeName node;
    std::string group{};  // its PodGroup, as "team/train", or empty
  };
  std::vector<Preemptor> pods;
  std::vector<Victim> victims;  // at least one; of one node the most important first
  std::uint64_t answers = 0;    // Reservations::answers() afterwards
};

// Chooses victims for all `pods` together, which are the pods of a group that are not bound, or one
// that is bound alone. kube-scheduler never calls preempt for a pod where the sums of the nodes
// suffice and no card does: it finds no victims then. Nor does it for the pods of a group
// (PodGroup). It chooses on `nodes`, which kube-scheduler's own filters passed and filter refused,
// those that kube-scheduler would choose of the victims that preempt finds on each node. They are
// chosen for one pod after another. The cards are reserved for the pods there, for kNominationSeen,
// and longer if they are nominated for the nodes by then.
//
// Empty if filter has answered one of the pods after `answers` (Reservations::answers()); if all
// pods fit, or will fit when pods that are terminating have ended; if one of them does not fit with
// any victims; and if one of them may evict none: its preemptionPolicy is Never, or it needs to be
// near other pods. The same holds for a group with a pod whose fit depends on more than resources,
// since kube-scheduler has not shown that it fits beside other pods.
std::optional<ChosenVictims> preempt_by_card(std::span<const kube::Pod> pods,
                                             const std::vector<std::string>& nodes,
                                             const Spared& spared, std::uint64_t answers,
                                             const VerbContext& context, Instant now);

}  // namespace mgpu::extender
