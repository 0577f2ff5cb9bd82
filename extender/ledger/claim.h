// A pod's hold on cards, and how it is read from the API.
//
//              bind                  watch shows the pod bound
//   (none) ----------> kAssumed --------------------------------> kBound ----> (released)
//                        |  forget: the API server refused, or the pod, read   pod finished or gone
//                        +--------> again, is not bound to this node
//
// A pod first seen bound (another extender, a restart) goes to kBound at once.
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

// What is wrong with a bound pod; while it lasts, cards are blocked rather than called free.
enum class Drift : std::uint8_t {
  kNone,
  kNoAnnotations,   // bound by hand, or by a scheduler without this extender
  kBadAnnotations,  // they do not parse, or name another number of cards than the pod asks for
  kBadRequest,      // the pod's request is one that filter would have refused
  kUnknownCard,     // a card that the node does not have (now)
};
std::string_view name(Drift drift);

struct Claim {
  PodRef pod;
  PodUid uid;
  NodeName node;
  GpuRequest request;
  NodeResources host;                  // what the pod asks of its node beside cards
  std::optional<Placement> placement;  // none where `drift` hides it
  Drift drift = Drift::kNone;
  std::string drift_detail;  // one sentence, for people
  // For preemption.
  std::int32_t priority = 0;
  std::string start_time;
  kube::StringMap labels;
};

// Empty for pods that ask for no cards. What only says where a pod would like to go (selectors,
// policy) is not read, and no least amount of memory holds: neither may turn a running pod into
// drift. Pure. REQUIRES: pod.node_name is set.
std::optional<Claim> claim_of(const kube::Pod& pod, const Contract& contract);

// A bound pod that asks for no cards: only its host amounts count.
struct NonGpuPod {
  PodUid uid;
  NodeName node;
  NodeResources host;
};

// The cards of a node, by the contract: the mgpu-cards annotation, or where there is none
// capacity's core/100 cards of equal memory (remainders are not offered). Ascending by index.
// `problem` is a sentence where what stands on the node cannot be used; then there are no cards.
struct NodeFacts {
  NodeName name;
  std::vector<CardFacts> cards;
  NodeResources allocatable;
  std::string problem;
};
NodeFacts node_facts_of(const kube::Node& node, const Contract& contract);

}  // namespace mgpu::extender
