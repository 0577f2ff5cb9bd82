// What a pod requests, as every verb reads it, and where it is placed on one node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/objects.h"
#include "extender/placement/context.h"
#include "extender/placement/policy.h"
#include "extender/placement/score.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

struct PodRequest {
  GpuRequest request;                // empty for a non-GPU pod
  PolicyChoice policy;               // the pod's own, or the extender's default
  NodeResources resources;           // what it requests beside cards
  std::uint64_t tie_break_seed = 0;  // tie_break_seed_of its uid
  TieOrder ties = {};
  DecidedPod pod = {};

  // Must not outlive this and the price snapshot.
  PlacementContext context(const PriceSnapshot* price_snapshot) const {
    return {request, resources, tie_break_seed, price_snapshot};
  }
};

// Errors: those of read_request, and an unknown policy in the pod's annotation.
Result<PodRequest> read_pod_request(const kube::Pod& pod, const VerbOptions& options);

// Whether a container names a resource of the contract, whatever its amount: for such a pod
// kube-scheduler calls this extender (pkg/scheduler/extender.go, IsInterested).
bool names_cards(const kube::Pod& pod, const Contract& contract);

// Whether kube-scheduler chooses among the nodes that fit, since the pod prefers some of them by
// rules that the extender does not know. The members of a group are not asked: their cards are
// reserved on the node that filter answers.
bool leaves_choice(const PodRequest& pod, const kube::Pod& sent);

// A hash, equal for pods such as the replicas of one template: of all that says on which nodes the
// pod may run. A pod about which not all is known has one of its own. Never 0.
std::uint64_t replica_group_of(const kube::Pod& pod, const PodRequest& request);

// The cards that the pod's card policy chooses; nothing if the pod does not fit.
std::optional<Placement> place_on(const Node& node, const PodRequest& pod,
                                  const PriceSnapshot* price_snapshot);

// Expects the pod's cards on this node, with which kube-scheduler goes on unless its own plugins or
// another extender refuse it, and reserves them once the pod is nominated for the node. For a pod
// whose volumes or claims may have to be made first, or that is bound with others of a group, they
// are reserved at once, for a moment.
void expect_on(std::string_view node, const PodRequest& pod, const kube::Pod& sent,
               const VerbContext& context, Instant now);

// Offers the pod's cards on these nodes, of which kube-scheduler chooses one. The cards of a pod
// that waits there, for its volume or claim, are reserved once it is nominated for the node; of at
// most kNominatedNodesMax nodes.
void offer_on(std::span<const std::string_view> nodes, const PodRequest& pod, const kube::Pod& sent,
              const VerbContext& context, Instant now);

}  // namespace mgpu::extender
