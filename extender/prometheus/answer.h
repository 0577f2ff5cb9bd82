// Answers of the HTTP API of Prometheus. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/kube/limits.h"
#include "common/kube/transport.h"

namespace mgpu::promql {

struct Sample {
  double at = 0;  // Unix time in seconds
  double value = 0;
};

using Labels = std::map<std::string, std::string, std::less<>>;

struct Series {
  Labels labels{};  // the name of the metric is __name__
  std::vector<Sample> samples{};

  // Empty if there is no such label.
  std::string_view label(std::string_view name) const;
};

struct Answer {
  std::vector<Series> series{};
  // The warnings of Prometheus about the answer, for instance that a part of it is missing.
  std::vector<std::string> warnings{};
};

// The answer to an instant query: one sample of each series. Errors: no answer; an error of
// Prometheus, or of a proxy before it; another kind of result; more than the limits. `bytes_max` is
// the limit of the answer that the request has.
Result<Answer> vector_in(const kube::Response& response,
                         std::size_t bytes_max = kube::kApiResponseBytesMax);
// The same for a range query: at least one sample of each series.
Result<Answer> matrix_in(const kube::Response& response,
                         std::size_t bytes_max = kube::kApiResponseBytesMax);

}  // namespace mgpu::promql
