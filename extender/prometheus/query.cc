#include "extender/prometheus/query.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/kube/request.h"
#include "extender/prometheus/limits.h"

namespace mgpu::promql {
namespace {

// Between the end of a query in Prometheus and the arrival of the sentence about it.
constexpr Duration kAnswerTime{2'000};

kube::Request query(std::string_view path, std::string_view expression, const std::string& when,
                    Duration timeout) {
  kube::Request request;
  request.target = fmt::format("/api/v1/{}?query={}{}&timeout={}ms", path,
                               kube::query_text(expression), when, timeout.count());
  request.timeout = timeout + kAnswerTime;
  return request;
}

}  // namespace

kube::Request instant_query(std::string_view expression, std::chrono::sys_seconds at,
                            Duration timeout) {
  return query("query", expression, fmt::format("&time={}", at.time_since_epoch().count()),
               timeout);
}

kube::Request range_query(std::string_view expression, std::chrono::sys_seconds from,
                          std::chrono::sys_seconds to, std::chrono::seconds step,
                          Duration timeout) {
  MGPU_CHECK(from <= to && step > std::chrono::seconds(0), "a range has a step forward");
  MGPU_CHECK((to - from) / step < kPointsMax, "a range has no more points than answered");
  return query("query_range", expression,
               fmt::format("&start={}&end={}&step={}", from.time_since_epoch().count(),
                           to.time_since_epoch().count(), step.count()),
               timeout);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_at(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    // PromQL has Go's escapes, by which any byte of a label's value can be written.
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (byte == '"' || byte == '\\') out += '\\';
      out += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out + '"';
}

}  // namespace mgpu::promql
