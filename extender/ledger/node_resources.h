// What a pod asks of its node beside cards, and what a node has of it, read from API objects. Pure.
#pragma once

#include "common/kube/objects.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// As kube-scheduler counts it (common/contract/pod_requests.h), with the overhead; where a
// container names no request, its limit. What cannot be read counts as zero: the API server has
// checked it.
NodeResources resources_of(const kube::Pod& pod);

NodeResources allocatable_of(const kube::Node& node);

}  // namespace mgpu::extender
