// What the queries of the web page have in common: the limit of their answers.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/kube/transport.h"

namespace mgpu::extender {

// The request with the limit of its answer.
kube::Request bounded(kube::Request request);
// The error of an answer over the limit.
std::optional<Error> too_large(const kube::Response& response);

}  // namespace mgpu::extender
