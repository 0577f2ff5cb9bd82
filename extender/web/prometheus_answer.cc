#include "extender/web/prometheus_answer.h"

#include <fmt/format.h>

#include <utility>

#include "extender/web/limits.h"

namespace mgpu::extender {

kube::Request bounded(kube::Request request) {
  request.response_bytes_max = kPrometheusBytesMax;
  return request;
}

std::optional<Error> too_large(const kube::Response& response) {
  const bool refused = response.failure && response.failure->too_large;
  if (!refused && response.body.size() <= kPrometheusBytesMax) return std::nullopt;
  return error(
      fmt::format("the answer of Prometheus has more than {} MiB", kPrometheusBytesMax >> 20));
}

}  // namespace mgpu::extender
