// The controllers of pods, from their objects. Pure.
#pragma once

#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::kubectl {

struct OwnedPod {
  PodRef pod;
  std::string owner_kind;
  std::string owner;
};

// The controller of a Pod. A ReplicaSet counts as its Deployment where the pod has the label
// pod-template-hash and the name ends with it. A pod without a controller is its own owner, of kind
// "Pod". Errors: the text is not a Pod.
Result<OwnedPod> read_owned_pod(const std::string& json);

}  // namespace mgpu::kubectl
