// Blocking HTTP calls. REQUIRES: they are not made on the thread of an executor.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/kube/transport.h"

namespace mgpu::sim {

kube::Response call(kube::Transport& transport, kube::Request request);

kube::Request get(const std::string& target);
kube::Request post_json(const std::string& target, std::string body);

// The body of the response. Error: the call failed, or the status is not 2xx.
Result<std::string> body_of(const kube::Request& request, const kube::Response& response);

}  // namespace mgpu::sim
