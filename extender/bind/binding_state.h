// What a pod, read from the API server, says about a binding that was or will be asked for. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/ids.h"
#include "common/contract/contract.h"
#include "common/kube/objects.h"

namespace mgpu::extender {

using Annotations = std::map<std::string, std::string>;

enum class BindingState : std::uint8_t {
  kUnbound,    // may still be bound
  kOurs,       // on the node, with all of these annotations
  kHere,       // on the node, with the cards of another attempt
  kHereBare,   // on the node, without cards
  kElsewhere,  // on another node
  kAnother,    // another uid: the pod is gone, and this one has its name
  kEnding,     // unbound, and being deleted or finished
};

// `annotations`: what the binding writes; none for a pod that asks for no cards.
BindingState standing_of(const kube::Pod& pod, const PodUid& uid, const NodeName& node,
                         const Annotations& annotations, const Contract& contract);

// One sentence about the pod.
std::string sentence_of(BindingState standing, const kube::Pod& pod);

}  // namespace mgpu::extender
