// The controller that a pod belongs to, to which its use is charged. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// Kubernetes limits the names of most objects to 253 characters, and kinds to 63.
inline constexpr std::size_t kOwnerNameMax = 253;
inline constexpr std::size_t kOwnerKindMax = 63;

struct PodOwner {
  std::string kind;  // "Deployment"
  std::string name;
  bool operator==(const PodOwner&) const = default;
};

// The controller of the pod. A ReplicaSet counts as its Deployment if the pod has the label
// pod-template-hash and the name of the ReplicaSet ends with it, as the controller of Deployments
// makes them. A pod without a controller is its own owner, of kind "Pod".
//
// Whoever may create pods chooses the owner, which is a text without any check by the API server. A
// controller whose kind or name is not valid in Kubernetes counts as none, so that its pods are
// still charged: one that is empty or too long, or has other characters than letters, digits, "-",
// "." and, in a name, ":".
PodOwner owner_of(const Pod& pod);

}  // namespace mgpu::kube
