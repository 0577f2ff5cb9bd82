#include "extender/prometheus/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "common/kube/objects/json_value.h"
#include "extender/prometheus/limits.h"

namespace mgpu::promql {
namespace {

using kube::JsonValue;

constexpr int kUnauthorizedStatus = 401;
constexpr int kForbiddenStatus = 403;
constexpr std::string_view kVector = "vector";
// "bad_data", "execution", "too_many_requests", ...
constexpr std::size_t kErrorTypeShown = 32;

// The members of an answer, as far as they are read.
struct Body {
  std::string status;
  std::string error_type;
  std::string error;
  std::string result_type;
  bool partial = false;  // VictoriaMetrics, while a part of its storage does not answer
  Answer answer;
  std::size_t samples = 0;
  std::string problem;  // the first one
};

std::string shown(std::string_view message) {
  const std::string escaped = json_escaped(cut_text(message, kMessageShown));
  return std::string(cut_text(escaped, kMessageShown));
}

// "NaN", "+Inf" and "-Inf" are numbers, too; a plus is not for from_chars.
bool read_number(std::string_view text, double& number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && stop == text.data() + text.size();
}

// [1767225600, "0.3"]
void read_sample(JsonValue& pair, Series& series, Body& body) {
  Sample sample;
  std::string value;
  std::size_t elements = 0;
  pair.elements([&](JsonValue& element) {
    if (elements == 0) sample.at = element.number();
    if (elements == 1) value = element.text();
    ++elements;
  });
  if (elements != 2 || !read_number(value, sample.value)) {
    if (body.problem.empty()) {
      body.problem = elements == 2 ? "a value must be a number, is " + in_quotes(value)
                                   : "a sample must be a time and a value";
    }
  } else if (++body.samples <= kSamplesMax) {
    series.samples.push_back(sample);
  }
}

void read_series(JsonValue& from, Body& body) {
  Series series;
  from.read({{"metric",
              [&](JsonValue& labels) {
                for (auto& [name, value] : labels.texts()) series.labels[name] = value;
              }},
             {"value",
              [&](JsonValue& pair) {
                series.samples.clear();
                read_sample(pair, series, body);
              }},
             {"values", [&](JsonValue& pairs) {
                series.samples.clear();
                pairs.elements([&](JsonValue& pair) { read_sample(pair, series, body); });
              }}});
  if (series.samples.empty() && body.problem.empty()) {
    body.problem = "a series has no samples, and histograms cannot be read";
  }
  body.answer.series.push_back(std::move(series));
}

// Other results than vectors and matrices have other elements, and are not read.
void read_result(JsonValue& result, Body& body) {
  body.answer.series.clear();
  body.samples = 0;
  std::size_t elements = 0;
  result.elements([&](JsonValue& element) {
    if (element.kind() != JsonValue::Kind::kObject) return;
    if (++elements <= kSeriesMax) read_series(element, body);
  });
  if (elements > kSeriesMax || body.samples > kSamplesMax) {
    body.problem = fmt::format("has {} series with {} samples, over the limits of {} and {}",
                               elements, body.samples, kSeriesMax, kSamplesMax);
  }
}

Result<Body> read_body(const std::string& text) {
  Body body;
  auto read = kube::read_json(
      text,
      [&](JsonValue& root) {
        root.read({{"status", body.status},
                   {"errorType", body.error_type},
                   {"error", body.error},
                   {"isPartial", body.partial},
                   {"warnings", [&](JsonValue& list) { body.answer.warnings = list.text_list(); }},
                   {"data", [&](JsonValue& data) {
                      data.read(
                          {{"resultType", body.result_type},
                           {"result", [&](JsonValue& result) { read_result(result, body); }}});
                    }}});
      },
      true);
  if (!read) return read.error();
  if (body.partial) {
    body.answer.warnings.insert(
        body.answer.warnings.begin(),
        "the answer is partial, because a part of the storage is not reached");
  }
  if (body.answer.warnings.size() > kWarningsMax) body.answer.warnings.resize(kWarningsMax);
  return body;
}

Error too_large(std::size_t bytes_max) {
  return error(
      fmt::format("the answer of Prometheus has more than {} MiB; query fewer series or less time",
                  bytes_max >> 20));
}

Error failure_of(const kube::Response& response, std::size_t bytes_max) {
  if (response.failure && response.failure->too_large) return too_large(bytes_max);
  return error("Prometheus does not answer: " +
               (response.failure ? shown(response.failure->message) : "the connection was closed"));
}

// Without the line end.
std::string own_words(const kube::Response& response) {
  const std::size_t last = response.body.find_last_not_of(" \t\r\n");
  return in_quotes(
      std::string_view(response.body).substr(0, last == std::string::npos ? 0 : last + 1));
}

// An answer that Prometheus does not give: of a proxy, or of another program.
Error foreign_answer(const kube::Response& response) {
  if (response.status == kUnauthorizedStatus || response.status == kForbiddenStatus) {
    return error(
        fmt::format("the server at --prometheus-url answers {} with {}; the token in the file "
                    "--prometheus-token-file must permit queries, and a server with tenants needs "
                    "--prometheus-tenant",
                    response.status, own_words(response)));
  }
  return error(
      fmt::format("the server at --prometheus-url answers {} with {}, and no JSON of the "
                  "HTTP API of Prometheus",
                  response.status, own_words(response)));
}

Result<Answer> answer_in(const kube::Response& response, std::string_view result_type,
                         std::size_t bytes_max) {
  if (response.failure || response.status == 0) return failure_of(response, bytes_max);
  if (response.body.size() > bytes_max) return too_large(bytes_max);
  auto body = read_body(response.body);
  if (body && body->status == "error") {
    return error(fmt::format("Prometheus answers {} {}: {}", response.status,
                             shown(cut_text(body->error_type, kErrorTypeShown)),
                             shown(body->error)));
  }
  if (!response.ok() || response.body.find_first_not_of(" \t\r\n") == std::string::npos ||
      response.body[response.body.find_first_not_of(" \t\r\n")] != '{') {
    return foreign_answer(response);
  }
  if (!body) return error("the answer of Prometheus cannot be read: " + body.error().message);
  if (body->status != "success") {
    return error("the answer of Prometheus must have the status success, has " +
                 in_quotes(body->status));
  }
  if (body->result_type != result_type) {
    return error(fmt::format("the answer of Prometheus must be a {}, is {}", result_type,
                             in_quotes(body->result_type)));
  }
  if (!body->problem.empty()) {
    return error("the answer of Prometheus cannot be used: " + body->problem);
  }
  const auto has_many = [](const Series& series) { return series.samples.size() != 1; };
  if (result_type == kVector && std::ranges::any_of(body->answer.series, has_many)) {
    return error("a series of a vector of Prometheus must have one sample, has several");
  }
  return std::move(body->answer);
}

}  // namespace

std::string_view Series::label(std::string_view name) const {
  const auto found = labels.find(name);
  return found == labels.end() ? std::string_view() : found->second;
}

Result<Answer> vector_in(const kube::Response& response, std::size_t bytes_max) {
  return answer_in(response, kVector, bytes_max);
}

Result<Answer> matrix_in(const kube::Response& response, std::size_t bytes_max) {
  return answer_in(response, "matrix", bytes_max);
}

}  // namespace mgpu::promql
