// Whether a pod, as the API server shows it, is bound, and how. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/ids.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"

namespace mgpu::extender {

using Annotations = std::map<std::string, std::string>;

enum class BindingState : std::uint8_t {
  kUnbound,              // it may still be bound
  kBoundAsPosted,        // to the node, with all of the annotations
  kBoundWithOtherCards,  // to the node, by another attempt
  kBoundWithoutCards,    // to the node
  kBoundElsewhere,       // to another node
  kAnotherPod,           // the uid differs: the pod was deleted and created again
  kTerminating,          // unbound, and being deleted or finished
};

// `annotations` are those that the binding writes; a non-GPU pod has none.
BindingState binding_state_of(const kube::Pod& pod, const PodUid& uid, const NodeName& node,
                              const Annotations& annotations, const Contract& contract);

// One sentence about the pod.
std::string sentence_of(BindingState state, const kube::Pod& pod);

}  // namespace mgpu::extender
