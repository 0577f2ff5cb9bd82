// The four verbs. filter, prioritize and preempt only compute; bind (binder.h) assumes and writes.
//
// Powers: filter, prioritize and preempt change nothing but the expected placement of their own
// pod. A pod that asks for no cards passes filter everywhere and is bound without annotations.
#pragma once

#include <memory>
#include <string>

#include "common/base/executor.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "extender/learning/current_prices.h"
#include "extender/learning/workload_window.h"
#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/placement/policy.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

class DisruptionBudgets;

// Constant after construction.
struct Settings {
  Contract contract;
  MiB min_memory{256};
  PolicyChoice policy;              // where the pod does not choose
  bool expected_placements = true;  // off only to measure what they are worth
  Duration expectation_life = kExpectedPlacementLife;
  std::shared_ptr<const CurrentPrices>
      price_snapshots{};  // none: policies know nothing of pods to come
  // Told of every pod that is asked about, where there is one.
  std::shared_ptr<WorkloadWindow> window{};

  // What a decision goes by; held for as long as the decision lasts. May be null.
  MarketPtr price_snapshot() const {
    return price_snapshots ? price_snapshots->current() : nullptr;
  }
};

// Every refused node is listed, with reason.h's sentence, or with the sentence of read_request for
// a pod that is refused everywhere. When one node is left, kube-scheduler does not call prioritize:
// then filter notes the expected placement.
// The pod becomes part of the workload that is learned.
FilterReply filter(const ExtenderArgs& args, Ledger& ledger, const Settings& settings, Instant now);

// 10 for exactly one node, the policy's best, which is noted as the pod's expected placement; at
// most 9 for every other, in order. Nodes that fit only without the expected placements of other
// pods score 0, nodes that do not fit too. Pods that ask for no cards: 0 for every node, or where
// the policy ranks them, as for the others, but that all nodes without cards that are as good as
// the best get 10.
std::vector<HostScore> prioritize(const ExtenderArgs& args, Ledger& ledger,
                                  const Settings& settings, Instant now);

// As prioritize for pods that ask for no cards, where the policy ranks them. Else no scores at all,
// which kube-scheduler reads as zeros: pods with cards are prioritized in another call.
std::vector<HostScore> prioritize_non_gpu(const ExtenderArgs& args, Ledger& ledger,
                                          const Settings& settings, Instant now);

// For each node the cheapest set of lower-priority pods that makes the pod fit the cards
// (placement/preemption.h), together with those proposed victims that hold no cards. Where the
// cards are free without an eviction, the proposal stands as it is: kube-scheduler 1.36 fails the
// whole preemption over a node without victims. Nodes where nothing helps, or that are not known,
// are left out. Victims are bound pods of lower priority, the most important first. A pod that asks
// for no cards gets the proposal back.
std::vector<NodeVictims> preempt(const PreemptionArgs& args, Ledger& ledger,
                                 const DisruptionBudgets& budgets, const Settings& settings,
                                 Instant now);

}  // namespace mgpu::extender
