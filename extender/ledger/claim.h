// The cards that a pod claims, and what is read from the API for it.
//
//              bind                  the watch shows the pod bound
//   (none) ----------> kAssumed -----------------------------------> kBound ----> (released)
//                        |  forget: the API server refused the     pod finished or deleted
//                        +--------> binding, or the pod is not bound
//
// A pod that was bound by another extender or before a restart is kBound at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// Why a bound pod does not match the contract. Until that ends, the cards that it may hold are
// blocked.
enum class Drift : std::uint8_t {
  kNone,
  kNoAnnotations,   // bound by a user, or by a scheduler without this extender
  kBadAnnotations,  // they do not parse, or their number of cards differs from the request
  kBadRequest,      // filter would have rejected the request
  kUnknownCard,     // the node does not have a card that the annotations name
};
std::string_view name(Drift drift);

struct Claim {
  PodRef pod;
  PodUid uid;
  NodeName node;
  GpuRequest request;
  NodeResources host;                  // the CPU and main memory that the pod requests
  std::optional<Placement> placement;  // empty where it cannot be read, as `drift` says
  Drift drift = Drift::kNone;
  std::string drift_detail;  // one sentence, for people
  // What preemption uses.
  std::int32_t priority = 0;
  std::string start_time;
  kube::StringMap labels;
  bool anti_affinity = false;  // kube::Pod::anti_affinity
};

// Empty for pods that request no cards. Selectors, policy and --min-memory-mib do not apply to a
// bound pod: none of them may turn a running pod into drift. Pure. REQUIRES: pod.node_name is set.
std::optional<Claim> claim_of(const kube::Pod& pod, const Contract& contract);

// A bound pod that requests no cards: only its CPU and main memory count.
struct NonGpuPod {
  PodUid uid;
  NodeName node;
  NodeResources host;
  bool anti_affinity = false;  // kube::Pod::anti_affinity
};

// The cards of a node, ascending by index, from the mgpu-cards annotation, or where there is none
// from the capacity: core/100 cards of equal memory (remainders are not offered). Where they cannot
// be read, `problem` is a sentence and there are no cards.
struct NodeFacts {
  NodeName name;
  std::vector<CardFacts> cards;
  NodeResources allocatable;
  std::string problem;
  std::int64_t pods_allowed = 0;  // zero where it is not known
};
NodeFacts node_facts_of(const kube::Node& node, const Contract& contract);

// The CPU and main memory that a pod requests, as kube-scheduler counts them
// (common/contract/pod_requests.h), with the overhead; a container without a request counts with
// its limit. A quantity that cannot be parsed counts as zero, since the API server validates them.
NodeResources resources_of(const kube::Pod& pod);

}  // namespace mgpu::extender
