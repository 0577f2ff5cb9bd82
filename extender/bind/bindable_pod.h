// What bind needs of a pod: from filter's message, or read from the API server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

struct BindablePod {
  PodRef ref;
  PodUid uid;
  std::string resource_version;
  NodeName nominated{};        // status.nominatedNodeName, perhaps empty
  std::size_t json_bytes = 0;  // of the text that it was read from
  PodRequest request;
  // What preemption uses.
  std::int32_t priority = 0;
  std::string start_time;
  kube::StringMap labels;
};

// Errors: no container names a resource of the contract, so that kube-scheduler binds the pod
// itself; it has no resourceVersion; those of read_pod_request. Any thread.
Result<BindablePod> read_bindable_pod(const kube::Pod& pod, const VerbOptions& options);

// Whether both lead to the same claim, so that a claim made for one counts for the other.
bool same_request(const BindablePod& a, const BindablePod& b);

// The memory that the pod takes, approximately.
std::size_t bytes_of(const BindablePod& pod);

}  // namespace mgpu::extender
