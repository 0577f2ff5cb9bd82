// The cards that a pod claims, and what is read from the API for it.
//
//              bind                  the watch shows the pod bound
//   (none) ----------> kAssumed -----------------------------------> kBound ----> (released)
//                        |  forget: the API server refused the     pod finished or deleted
//                        +--------> binding, or the pod is not bound
//
// A pod that was bound by another extender or before a restart is kBound at once.
//
// A pod keeps the cards that it was bound with: those of the binding that the API server accepted
// here, or else those of the first sight of the bound pod. Annotations can be edited later, but the
// containers stay on their cards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/contract/drift.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/objects.h"
#include "extender/placement/node_gates.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct Claim {
  PodRef pod;
  PodUid uid;
  NodeName node;
  GpuRequest request;
  NodeResources resources;             // the CPU and main memory that the pod requests
  std::optional<Placement> placement;  // empty if it cannot be read; `drift` is then set
  // Without a placement: the most that the pod may hold of any one card, which counts on each card
  // of the node. Empty if it is not known: then all cards are uncertain.
  std::optional<Share> most_of_one_card{};
  // kChangedAnnotations: the cards that the pod was bound with still count. kBindingWithoutCards:
  // these are not known, or the node does not have one of them.
  std::optional<DriftKind> drift{};
  std::string drift_detail;  // one sentence, for people
  // What preemption uses.
  std::int32_t priority = 0;
  std::string start_time;
  kube::StringMap labels;
  std::string group{};         // DecidedPod::group
  bool in_pod_group = false;   // `group` is a PodGroup; set for a bound claim
  bool anti_affinity = false;  // kube::Pod::anti_affinity
  bool terminating = false;    // the pod is being deleted
  bool ends_soon = false;      // its cards become free without a decision (kEndsSoonSeconds)
};

// Empty for pods that request no cards. Selectors, policy and --min-memory-mib do not apply to a
// bound pod: none of them may turn a running pod into drift. container-multiple-gpu may: but where
// each container has an index annotation that its amounts can be split over, these are its cards.
// Pure. REQUIRES: pod.node_name is set.
std::optional<Claim> claim_of(const kube::Pod& pod, const Contract& contract);

// The group of pods that are bound together, as "team/train"; empty for a pod that is bound alone.
// It is a PodGroup, or named by a label of the plugin Coscheduling or of Kueue.
std::string group_name(const kube::Pod& pod);

// Gives `shown`, the claim of a bound pod as it is read now, the cards of `first`, with which the
// pod was bound to the same node. A difference is drift. Pure.
void keep_cards(const Claim& first, Claim& shown);

// A bound pod that has another drift than was reported last, or none now.
struct DriftChange {
  PodRef pod;
  NodeName node;
  std::optional<DriftKind> drift{};
  std::string detail;  // Claim::drift_detail
};

// A bound pod that requests no cards: only its CPU and main memory count.
struct NonGpuPod {
  PodUid uid;
  NodeName node;
  NodeResources resources;
  bool anti_affinity = false;  // kube::Pod::anti_affinity
};

// The cards of a node, ascending by index, from the mgpu-cards annotation, or, if there is none,
// from the capacity: core/100 cards of equal memory (remainders are not offered). A node with the
// condition of the device plugin of mgpu has no cards before it has the annotation. If they cannot
// be read, `problem` is a sentence and there are no cards. If mgpu-cordoned-cards cannot be read,
// it is one, too, and no card is cordoned.
struct NodeFacts {
  NodeName name;
  std::vector<CardFacts> cards;
  NodeResources allocatable;
  std::string problem;
  std::int64_t pods_allowed = 0;      // zero if it is not known
  bool by_capacity = false;           // the cards are those of the capacity
  std::vector<CardIndex> cordoned{};  // ascending; the node need not have them
  NodeProfile profile{};
  NodeGates gates{};
  CardLinks links{};  // of `cards`, by their positions; empty if they are not known
};
NodeFacts node_facts_of(const kube::Node& node, const Contract& contract);

// The CPU and main memory that a pod requests, as kube-scheduler counts them
// (common/contract/pod_requests.h), with the overhead; a container without a request counts with
// its limit. At most 2^40 of each, so that the pods of a node never overflow a sum: only amounts
// that no node has are cut. A quantity that is not one counts as zero, since the API server
// validates them.
NodeResources resources_of(const kube::Pod& pod);

}  // namespace mgpu::extender
