#include "extender/kubectl/doctor/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/text.h"

namespace mgpu::kubectl {
namespace {

void skip_blanks(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':';
}

// Removes the name that `text` starts with; it may be empty.
std::string take_name(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  const std::string name(text.substr(0, length));
  text.remove_prefix(length);
  return name;
}

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

// Removes {a="x",b="y"}, with or without a comma at the end.
bool take_labels(std::string_view& text, MetricSample& sample) {
  text.remove_prefix(1);
  while (true) {
    skip_blanks(text);
    if (text.starts_with('}')) break;
    const std::string name = take_name(text);
    skip_blanks(text);
    if (name.empty() || !text.starts_with('=')) return false;
    text.remove_prefix(1);
    skip_blanks(text);
    std::string value;
    if (!take_quoted(text, value)) return false;
    sample.labels[name] = std::move(value);
    skip_blanks(text);
    if (text.starts_with(',')) {
      text.remove_prefix(1);
    } else if (!text.starts_with('}')) {
      return false;
    }
  }
  text.remove_prefix(1);
  return true;
}

// "+Inf" and "NaN" are numbers, too; a plus is not for from_chars.
bool take_value(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool out_of_range = failure == std::errc::result_out_of_range;
  if (failure != std::errc() && !out_of_range) return false;
  std::string_view rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  return rest.empty() || rest.starts_with(' ') || rest.starts_with('\t');
}

bool read_sample(std::string_view line, MetricSample& sample) {
  sample.name = take_name(line);
  if (sample.name.empty()) return false;
  skip_blanks(line);
  if (line.starts_with('{') && !take_labels(line, sample)) return false;
  skip_blanks(line);
  return take_value(line, sample.value);
}

}  // namespace

Result<MetricSamples> parse_metrics(std::string_view text) {
  MetricSamples samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    skip_blanks(line);
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
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
