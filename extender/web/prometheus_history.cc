#include "extender/web/prometheus_history.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "common/base/text.h"
#include "extender/prometheus/answer.h"
#include "extender/prometheus/query.h"
#include "extender/web/limits.h"

namespace mgpu::extender {
namespace {

// "free" of mgpu_extender_compute_cards, and "bound" of mgpu_extender_claims. What is used is that
// of the cards that device plugins measure.
constexpr const char* kHistoryExpression =
    R"q(max by (__name__) ({__name__=~"mgpu_extender_(gpu_allocation_ratio|memory_allocation_)q"
    R"q(ratio|compute_cards|free_compute_on_used_cards|free_cards|partly_used_nodes|claims)",)q"
    R"q(state=~"|free",phase=~"|bound"}) or on (__name__) )q"
    R"q(avg by (__name__) (max by (__name__,uuid) (mgpu_card_sm_utilization_ratio)) )q"
    R"q(or on (__name__) sum by (__name__) (max by (__name__,uuid) ()q"
    R"q({__name__=~"mgpu_card_memory_(used|total)_bytes"})))q";

// An idle pod has held cards for an hour, and used less than 1 % of what was granted.
constexpr const char* kIdleExpression =
    R"q(max by (namespace,pod) (sum by (job,namespace,pod) ()q"
    R"q(increase(mgpu_container_used_card_seconds_total[1h]))) < 0.01 * )q"
    R"q(max by (namespace,pod) (sum by (job,namespace,pod) ()q"
    R"q(increase(mgpu_container_granted_card_seconds_total[1h]))) )q"
    R"q(and on (namespace,pod) mgpu_container_granted_card_seconds_total offset 1h)q";

constexpr std::chrono::seconds kBack =
    kPrometheusStep * (static_cast<std::int64_t>(kHistoryPointsMax) - 1);
static_assert(kBack < kPrometheusHistory && kBack + kPrometheusStep >= kPrometheusHistory);

// The values of one time.
struct Values {
  HistoryPoint point;
  std::optional<double> free;  // in cards
  std::optional<double> free_in_parts;
  std::optional<double> memory_used;  // in bytes
  std::optional<double> memory;
};

void set(Values& values, std::string_view metric, double value) {
  constexpr std::string_view kPrefix = "mgpu_extender_";
  if (!std::isfinite(value)) return;
  if (metric == "mgpu_card_sm_utilization_ratio") values.point.core_used = 100 * value;
  if (metric == "mgpu_card_memory_used_bytes") values.memory_used = value;
  if (metric == "mgpu_card_memory_total_bytes") values.memory = value;
  if (!metric.starts_with(kPrefix)) return;
  metric.remove_prefix(kPrefix.size());
  if (metric == "gpu_allocation_ratio") values.point.core = 100 * value;
  if (metric == "memory_allocation_ratio") values.point.memory = 100 * value;
  if (metric == "compute_cards") values.free = value;
  if (metric == "free_compute_on_used_cards") values.free_in_parts = value;
  if (metric == "free_cards") values.point.cards_free = value;
  if (metric == "partly_used_nodes") values.point.nodes_partly = value;
  if (metric == "claims") values.point.pods = value;
}

HistoryPoint point_of(Values values) {
  if (values.free && values.free_in_parts && *values.free > 0) {
    values.point.core_in_parts = 100 * *values.free_in_parts / *values.free;
  }
  if (values.memory_used && values.memory && *values.memory > 0) {
    values.point.memory_used = 100 * *values.memory_used / *values.memory;
  }
  return values.point;
}

double seconds_of(std::chrono::sys_seconds time) {
  return static_cast<double>(time.time_since_epoch().count());
}

}  // namespace

kube::Request history_request(std::chrono::sys_seconds now) {
  kube::Request request = promql::range_query(kHistoryExpression, now - kBack, now, kPrometheusStep,
                                              kPrometheusTimeout);
  request.response_bytes_max = kPrometheusBytesMax;
  return request;
}

Result<std::vector<HistoryPoint>> history_in(const kube::Response& response,
                                             std::chrono::sys_seconds now) {
  const auto answer = promql::matrix_in(response, kPrometheusBytesMax);
  if (!answer) return answer.error();
  std::map<std::int64_t, Values> at;  // in ms
  for (const promql::Series& series : answer->series) {
    for (const promql::Sample& sample : series.samples) {
      // Other times are none of this query, and may be no numbers.
      const bool within = sample.at >= seconds_of(now - kBack) && sample.at <= seconds_of(now);
      if (!within) continue;
      const auto unix_ms = static_cast<std::int64_t>(std::llround(1'000 * sample.at));
      if (at.size() >= kHistoryPointsMax && !at.contains(unix_ms)) {
        return error(fmt::format("the answer of Prometheus has more than {} times", at.size()));
      }
      set(at[unix_ms], series.label("__name__"), sample.value);
    }
  }
  if (at.empty()) {
    return error(
        "Prometheus has no metrics of mgpu-extender of the last 24 hours; it must scrape the "
        "extenders");
  }
  std::vector<HistoryPoint> points;
  points.reserve(at.size());
  for (auto& [unix_ms, values] : at) {
    values.point.unix_ms = unix_ms;
    points.push_back(point_of(values));
  }
  return points;
}

kube::Request idle_request(std::chrono::sys_seconds now) {
  kube::Request request = promql::instant_query(kIdleExpression, now, kPrometheusTimeout);
  request.response_bytes_max = kPrometheusBytesMax;
  return request;
}

std::vector<PodRef> idle_in(const kube::Response& response) {
  std::vector<PodRef> pods;
  const auto answer = promql::vector_in(response, kPrometheusBytesMax);
  if (!answer) return pods;
  for (const promql::Series& series : answer->series) {
    if (pods.size() >= kIdlePodsMax) break;
    const auto label = [&](const char* name) {
      return std::string(cut_text(series.label(name), kPrometheusLabelBytesMax));
    };
    pods.push_back({label("namespace"), label("pod")});
  }
  return pods;
}

void PrometheusHistory::poll(Instant now) {
  if (asking_ || (asked_ && now - *asked_ < kPrometheusInterval)) return;
  asking_ = true;
  asked_ = now;
  const auto time = std::chrono::floor<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(unix_ms_())));
  prometheus_.send(history_request(time),
                   answers_.wrap([this, time](const kube::Response& response) {
                     take(history_in(response, time), time);
                   }));
}

void PrometheusHistory::take(Result<std::vector<HistoryPoint>> points,
                             std::chrono::sys_seconds time) {
  problem_ = points ? "" : points.error().message;
  points_ = points ? std::move(*points) : std::vector<HistoryPoint>();
  if (points_.empty()) return take_idle({});
  prometheus_.send(idle_request(time), answers_.wrap([this](const kube::Response& response) {
    take_idle(idle_in(response));
  }));
}

void PrometheusHistory::take_idle(std::vector<PodRef> pods) {
  idle_ = std::move(pods);
  asking_ = false;
  ++version_;
}

}  // namespace mgpu::extender
