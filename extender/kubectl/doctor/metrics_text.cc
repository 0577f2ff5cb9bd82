#include "extender/kubectl/doctor/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/text.h"

namespace mgpu::kubectl {
namespace {

// Removes a value in quotes, in which \\, \" and \n are escaped.
bool take_quoted(std::string_view& text, std::string& value) {
  if (!text.starts_with('"')) return false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    const bool escaped = text[i] == '\\';
    if (escaped && ++i == text.size()) return false;
    value += escaped && text[i] == 'n' ? '\n' : text[i];
  }
  return false;
}

// Removes {a="x",b="y"}.
bool take_labels(std::string_view& text, MetricSample& sample) {
  do {
    text.remove_prefix(1);
    const std::size_t end = text.find('=');
    if (end == text.npos || end == 0) return false;
    std::string& value = sample.labels[std::string(text.substr(0, end))];
    text.remove_prefix(end + 1);
    if (!take_quoted(text, value)) return false;
  } while (text.starts_with(','));
  if (!text.starts_with('}')) return false;
  text.remove_prefix(1);
  return true;
}

// "+Inf" and "NaN" are numbers, too; a plus is not for from_chars.
bool take_value(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool out_of_range = failure == std::errc::result_out_of_range;
  if (failure != std::errc() && !out_of_range) return false;
  return stop == text.data() + text.size();
}

bool read_sample(std::string_view line, MetricSample& sample) {
  const std::size_t end = std::min(line.find_first_of("{ "), line.size());
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.starts_with('{') && !take_labels(line, sample)) return false;
  if (sample.name.empty() || !line.starts_with(' ')) return false;
  return take_value(line.substr(1), sample.value);
}

}  // namespace

Result<MetricSamples> parse_metrics(std::string_view text) {
  MetricSamples samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.empty() || line.starts_with('#')) continue;
    MetricSample sample;
    if (!read_sample(line, sample)) {
      return error(fmt::format("line {} must be a name, labels and a number, is {}", number,
                               in_quotes(line)));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace mgpu::kubectl
