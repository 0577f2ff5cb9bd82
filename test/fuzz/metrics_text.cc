// Feeds the Prometheus text format to the reader of the extender's metrics.
//
// Properties: an error is one short sentence; each name and label is in the text; there are no more
// samples than lines.
#include "extender/kubectl/doctor/metrics_text.h"

#include <algorithm>
#include <cstddef>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(metrics_text) {
  const auto parsed = kubectl::parse_metrics(input);
  if (!parsed) {
    expect_sentence(parsed.error().message);
    return;
  }
  const auto lines = static_cast<std::size_t>(std::ranges::count(input, '\n')) + 1;
  expect(parsed->size() <= lines, "a line has at most one sample");
  for (const kubectl::MetricSample& sample : *parsed) {
    expect(!sample.name.empty() && input.find(sample.name) != input.npos, "a name is in the text");
    for (const auto& [label, value] : sample.labels) {
      expect(!label.empty() && input.find(label) != input.npos, "a label is in the text");
      expect(value.size() <= input.size(), "a value is not longer than the text");
    }
  }
}

}  // namespace mgpu::fuzz
