// Reads the Prometheus text format, version 0.0.4. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::kubectl {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
  double value = 0;
};

using MetricSamples = std::vector<MetricSample>;

// Comments and time stamps are skipped. Errors: a line that is not a sample; the sentence has its
// number.
Result<MetricSamples> parse_metrics(std::string_view text);

}  // namespace mgpu::kubectl
