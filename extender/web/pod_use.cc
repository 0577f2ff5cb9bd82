#include "extender/web/pod_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/text.h"
#include "extender/prometheus/answer.h"
#include "extender/prometheus/query.h"
#include "extender/web/limits.h"
#include "extender/web/static_files.h"

namespace mgpu::extender {
namespace {

constexpr std::size_t kPodNameMax = 253;
constexpr std::size_t kNamespaceNameMax = 63;
constexpr double kMiB = 1024 * 1024;

// RFC 1123, as the API server requires it: a label, or with `dots` a subdomain.
bool is_name(const std::string& name, std::size_t most, bool dots) {
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= most && alphanumeric(name.front()) &&
         alphanumeric(name.back()) && std::ranges::all_of(name, [&](char c) {
           return alphanumeric(c) || c == '-' || (dots && c == '.');
         });
}

struct UsedAmount {
  std::optional<double> granted;
  std::optional<double> used;
};
struct UsedShare {
  UsedAmount core;    // percent
  UsedAmount memory;  // MiB
};
// Container, index of the card, and its UUID.
using ShareKey = std::tuple<std::string, std::int32_t, std::string>;

std::optional<ShareKey> key_of(const promql::Series& series) {
  const auto index = parse_number<std::int32_t>(series.label("index"));
  if (!index) return std::nullopt;
  return ShareKey(cut_text(series.label("container"), kPrometheusLabelBytesMax), *index,
                  cut_text(series.label("uuid"), kPrometheusLabelBytesMax));
}

void set_amount(UsedShare& share, std::string_view metric, double value) {
  if (!std::isfinite(value)) return;
  if (metric == "mgpu_container_core_limit_ratio") share.core.granted = 100 * value;
  if (metric == "mgpu_container_sm_utilization_ratio") share.core.used = 100 * value;
  if (metric == "mgpu_container_memory_limit_bytes") share.memory.granted = value / kMiB;
  if (metric == "mgpu_container_memory_used_bytes") share.memory.used = value / kMiB;
}

std::string amount_json(const UsedAmount& amount) {
  std::string out;
  if (amount.granted) out += fmt::format("\"granted\":{:.6g}", *amount.granted);
  if (amount.used) out += fmt::format("{}\"used\":{:.6g}", out.empty() ? "" : ",", *amount.used);
  return "{" + out + "}";
}

std::string shares_json(const std::map<ShareKey, UsedShare>& shares) {
  std::string out;
  for (const auto& [key, share] : shares) {
    const auto& [container, index, uuid] = key;
    out += fmt::format(R"({}{{"container":"{}","card":{},"uuid":"{}","core":{},"memoryMiB":{}}})",
                       out.empty() ? "" : ",", json_escaped(container), index, json_escaped(uuid),
                       amount_json(share.core), amount_json(share.memory));
  }
  return out;
}

std::string body_without_shares(std::int64_t unix_ms, const std::string& message) {
  return fmt::format(R"({{"at":{},"shares":[],"message":"{}"}})", unix_ms, json_escaped(message));
}

std::string top_command(const PodRef& pod) {
  return fmt::format("kubectl mgpu top -n {}", pod.name_space);
}

void respond_with(const http::Respond& respond, http::Response response) {
  response.headers.emplace_back("Cache-Control", "no-store");
  respond(with_web_headers(std::move(response)));
}

http::Response busy(const std::string& why) {
  http::Response response = http::error_response(429, why + "; try again later");
  response.headers = {{"Retry-After", "5"}};
  return response;
}

}  // namespace

Result<PodRef> pod_of_query(const std::string& query) {
  PodRef pod{http::query_value(query, "namespace"), http::query_value(query, "pod")};
  if (!is_name(pod.name_space, kNamespaceNameMax, false)) {
    return error(fmt::format("query parameter namespace: {} is not the name of a namespace",
                             in_quotes(pod.name_space)));
  }
  if (!is_name(pod.name, kPodNameMax, true)) {
    return error(
        fmt::format("query parameter pod: {} is not the name of a pod", in_quotes(pod.name)));
  }
  return pod;
}

kube::Request use_request(const PodRef& pod, std::chrono::sys_seconds now) {
  const std::string expression = fmt::format(
      R"q(max by (__name__,container,index,uuid) ({{__name__=~"mgpu_container_(core_limit_ratio|)q"
      R"q(sm_utilization_ratio|memory_limit_bytes|memory_used_bytes)",namespace={},pod={}}}))q",
      promql::quoted(pod.name_space), promql::quoted(pod.name));
  kube::Request request = promql::instant_query(expression, now, kPrometheusTimeout);
  request.response_bytes_max = kPrometheusBytesMax;
  return request;
}

Result<std::string> use_body(const kube::Response& response, const PodRef& pod,
                             std::int64_t unix_ms) {
  const auto answer = promql::vector_in(response, kPrometheusBytesMax);
  if (!answer) return answer.error();
  std::map<ShareKey, UsedShare> shares;
  for (const promql::Series& series : answer->series) {
    const auto key = key_of(series);
    if (!key) continue;
    if (shares.size() >= kPodUseSharesMax && !shares.contains(*key)) continue;
    set_amount(shares[*key], series.label("__name__"), series.samples.front().value);
  }
  if (shares.empty()) {
    return body_without_shares(
        unix_ms,
        "Prometheus has no use of this pod: it has not started, or Prometheus does not scrape the "
        "device plugin of its node with honor_labels. This command queries the device plugin: " +
            top_command(pod));
  }
  return fmt::format(R"({{"at":{},"shares":[{}]}})", unix_ms, shares_json(shares));
}

void PodUse::answer(const std::string& query, const http::Respond& respond) {
  const auto pod = pod_of_query(query);
  if (!pod) return respond_with(respond, http::error_response(400, pod.error().message));
  if (prometheus_ == nullptr) {
    return respond_with(
        respond,
        {.body = body_without_shares(
             unix_ms_(),
             "The extender reads no Prometheus (--prometheus-url). This command shows what "
             "the pod uses: " +
                 top_command(*pod))});
  }
  std::erase_if(kept_,
                [now = executor_.now()](const auto& kept) { return kept.second.until <= now; });
  const auto kept = kept_.find(*pod);
  if (kept != kept_.end()) return respond_with(respond, {.body = kept->second.body});
  const auto asked = waiting_.find(*pod);
  if (asked == waiting_.end() && waiting_.size() >= kPodUseQueriesMax) {
    return respond_with(
        respond, busy(fmt::format("Prometheus has not answered {} queries", waiting_.size())));
  }
  if (asked != waiting_.end()) {
    if (asked->second.size() < kPodUseWaitingMax) return asked->second.push_back(respond);
    return respond_with(respond, busy("too many requests wait for the use of this pod"));
  }
  waiting_[*pod].push_back(respond);
  ask(*pod);
}

void PodUse::ask(const PodRef& pod) {
  const std::int64_t unix_ms = unix_ms_();
  const auto time = std::chrono::floor<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(unix_ms)));
  prometheus_->send(use_request(pod, time),
                    answers_.wrap([this, pod, unix_ms](const kube::Response& response) {
                      take(pod, use_body(response, pod, unix_ms));
                    }));
}

void PodUse::take(const PodRef& pod, Result<std::string> body) {
  const std::vector<http::Respond> waiting = std::exchange(waiting_[pod], {});
  waiting_.erase(pod);
  for (const http::Respond& respond : waiting) {
    respond_with(respond, body ? http::Response{.body = *body}
                               : http::error_response(503, body.error().message));
  }
  if (!body || kept_.size() >= kPodUsesKept) return;
  kept_[pod] = {executor_.now() + kPodUseLife, std::move(*body)};
}

}  // namespace mgpu::extender
