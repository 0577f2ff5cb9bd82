// What the verb preempt and preemption by card share: copies of nodes with the pods that hold their
// cards, and the search for victims on them. Decides, and holds the ledger's lock for no longer
// than the copies of some nodes take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/kube/objects/objects.h"
#include "extender/placement/reason.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"
#include "extender/verbs/victims.h"

namespace mgpu::extender {

// One entry for each node; none if the node is unknown. Its pods of lower priority that are bound
// are evictable, and so are the victims that `nodes` proposes.
std::vector<std::optional<NodeState>> read_nodes(const std::vector<NodeVictims>& nodes,
                                                 const DecidedPod& preemptor, LedgerReader& ledger,
                                                 Instant now);

// The node without the victims.
Node after(const NodeVictims& victims, const NodeState& state);

// Whether the fit of the pod depends on nothing but CPU, memory and cards.
bool asks_only_for_resources(const kube::Pod& pod, const Contract& contract);

// The steps of one call, for all its nodes and pods. They are charged as those of `pod`, which
// outlives it.
class SearchSteps {
 public:
  SearchSteps(const PodRequest& pod, const VerbContext& context, Instant now);
  ~SearchSteps();
  SearchSteps(const SearchSteps&) = delete;
  SearchSteps& operator=(const SearchSteps&) = delete;

  bool ended() const;

  SearchBudget left;

 private:
  const PodRequest& pod_;
  Decisions& decisions_;
  const Instant now_;
  const std::uint32_t given_;
};

// The search for victims for one pod, on several nodes. All references outlive it.
class VictimsForPod {
 public:
  VictimsForPod(const kube::Pod& sent, const PodRequest& pod, const VerbContext& context,
                SearchSteps& steps);

  // Empty if there are none, or no steps are left.
  std::optional<NodeVictims> victims(const NodeVictims& proposed, NodeState& state);
  // Why the pod does not fit on the node.
  std::optional<Reason> why_not(const Node& node);
  // What the pod gets on a node on which it fits.
  std::optional<NominatedPlacement> placement(const Node& node) const;

 private:
  const PodRequest& pod_;
  const VerbContext& context_;
  const Preemptor preemptor_;
  const std::shared_ptr<const PriceSnapshot> price_snapshot_;
  SearchSteps& steps_;
};

}  // namespace mgpu::extender
