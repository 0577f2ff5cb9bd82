// Reads the metrics of mgpu itself, in the Prometheus text format as prometheus-cpp writes it:
// without blanks between the parts of a sample and without time stamps. Pure.
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

// Comments are skipped. Errors: a line that is not a sample; the sentence has its
// number.
Result<MetricSamples> parse_metrics(std::string_view text);

}  // namespace mgpu::kubectl
