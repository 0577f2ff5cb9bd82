// One HTTP call and its answer, waited for. For the simulator's own thread, never for an executor.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/kube/transport.h"

namespace mgpu::sim {

kube::Response call(kube::Transport& transport, kube::Request request);

kube::Request get(const std::string& target);
kube::Request post_json(const std::string& target, std::string body);

// The body, or one sentence: what was asked and what came back.
Result<std::string> body_of(const kube::Request& request, const kube::Response& response);

}  // namespace mgpu::sim
