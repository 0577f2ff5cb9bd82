#include "extender/kubectl/waste/prometheus_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "extender/kubectl/waste/limits.h"
#include "extender/prometheus/query.h"

namespace mgpu::kubectl {
namespace {

using std::chrono::seconds;

constexpr double kSecondsOfHour = 3'600;
constexpr double kCorePercents = 100;
constexpr double kMiBBytes = 1024.0 * 1024.0;
// The counters count for a share that they know for this part of the time.
constexpr double kCounterCoverMin = 0.9;

constexpr const char* kLimit = "mgpu_container_core_limit_ratio";
constexpr const char* kUsed = "mgpu_container_sm_utilization_ratio";

std::string prefix_of(const UseScope& scope) {
  return scope.exported_labels ? "exported_" : "";
}

// metric{namespace="a"}
std::string selected(const char* metric, const UseScope& scope) {
  std::vector<std::string> matchers;
  if (!scope.name_space.empty()) {
    matchers.push_back(
        fmt::format("{}namespace={}", prefix_of(scope), promql::quoted(scope.name_space)));
  }
  if (scope.exported_labels) matchers.push_back("exported_pod!=\"\"");
  if (scope.exclude_exported) matchers.push_back("exported_pod=\"\"");
  if (matchers.empty()) return metric;
  return fmt::format("{}{{{}}}", metric, fmt::join(matchers, ","));
}

// Each share once, whoever has scraped it.
std::string by_share(const std::string& expression, const UseScope& scope) {
  const std::string prefix = prefix_of(scope);
  return fmt::format("max by ({0}namespace, {0}pod, {0}container, uuid) ({1})", prefix, expression);
}

std::string joined(const char* metric, const UseScope& scope) {
  return by_share(selected(metric, scope), scope);
}

// The steps within `span` before the time of the query. Both ends of a range count in Prometheus 2,
// and only the later one in Prometheus 3: without the last second they are the same steps.
std::string steps_of(const std::string& expression, seconds span, seconds step) {
  return fmt::format("({})[{}s:{}s]", expression, span.count() - 1, step.count());
}

seconds span_of(const UseScope& scope) {
  return scope.until - scope.from;
}

void add_sums(const UseScope& scope, Time end, seconds span, std::vector<UseQuery>& queries) {
  const auto steps = [&](const std::string& expression) {
    return steps_of(expression, span, scope.step);
  };
  const std::string limit = steps(joined(kLimit, scope));
  const std::string used = steps(joined(kUsed, scope));
  const std::string idle =
      steps(by_share(selected("mgpu_container_processes", scope) + " == 0", scope));
  using Share = SeriesOfShare;
  const auto add = [&](const char* function, const std::string& range, auto member) {
    queries.push_back({fmt::format("{}({})", function, range), end,
                       [member](Share& share, double value) { share.*member += value; }});
  };
  add("sum_over_time", limit, &Share::limit_sum);
  add("count_over_time", limit, &Share::limit_steps);
  add("sum_over_time", used, &Share::used_sum);
  add("count_over_time", used, &Share::used_steps);
  add("count_over_time", idle, &Share::idle_steps);
}

void keep_most(std::optional<double>& kept, double value) {
  kept = std::max(kept.value_or(value), value);
}

// What is asked once, about the whole time.
void add_extremes(const UseScope& scope, std::vector<UseQuery>& queries) {
  using Member = std::optional<double> SeriesOfShare::*;
  const auto add = [&](std::string expression, Member member) {
    queries.push_back(
        {std::move(expression), scope.until,
         [member](SeriesOfShare& share, double value) { keep_most(share.*member, value); }});
  };
  const auto over_time = [&](const char* function, const char* metric, Member member) {
    const std::string range =
        fmt::format("{}({}[{}s])", function, selected(metric, scope), span_of(scope).count());
    add(by_share(range, scope), member);
  };
  over_time("max_over_time", kLimit, &SeriesOfShare::core);
  over_time("max_over_time", "mgpu_container_memory_limit_bytes", &SeriesOfShare::memory);
  over_time("max_over_time", "mgpu_container_memory_used_bytes", &SeriesOfShare::memory_peak);
  over_time("max_over_time", "mgpu_container_memory_peak_bytes", &SeriesOfShare::memory_peak);
  over_time("increase", "mgpu_container_granted_card_seconds_total",
            &SeriesOfShare::granted_counter);
  over_time("increase", "mgpu_container_used_card_seconds_total", &SeriesOfShare::used_counter);
}

std::string text_of(const promql::Series& series, const std::string& name) {
  return std::string(series.label(name));
}

// A value that no plugin reports counts as none.
bool is_amount(double value) {
  constexpr double kMost = 1e18;
  return value >= 0 && value < kMost;
}

// The cards whose drivers measure processes.
std::set<std::string> measured_cards(const SeriesOfShares& shares) {
  std::set<std::string> cards;
  for (const auto& [name, share] : shares) {
    if (share.used_steps > 0 || share.used_counter) cards.insert(std::get<3>(name));
  }
  return cards;
}

MeasuredShare share_of(const ShareName& name, const SeriesOfShare& from, bool card_is_measured,
                       seconds step) {
  MeasuredShare share;
  share.pod = {std::get<0>(name), std::get<1>(name)};
  share.container = std::get<2>(name);
  share.uuid = std::get<3>(name);
  share.core = from.core.value_or(0) * kCorePercents;
  share.memory = from.memory.value_or(0) / kMiBBytes;
  if (from.memory_peak) share.memory_peak = *from.memory_peak / kMiBBytes;
  const double step_hours = static_cast<double>(step.count()) / kSecondsOfHour;
  const double held = from.limit_steps;
  const double known = card_is_measured ? held : std::min(held, from.used_steps + from.idle_steps);
  share.granted_hours = from.limit_sum * step_hours;
  share.measured_hours = known * step_hours;
  share.samples = std::llround(known);
  if (known > 0) share.used_hours = from.used_sum * step_hours;
  // Where a value is missing and may be any, no percentile is known.
  if (known > 0 && known >= held) share.core_p95 = from.p95.value_or(0) * kCorePercents;
  const double counted = from.granted_counter.value_or(0) / kSecondsOfHour;
  if (!(counted >= kCounterCoverMin * share.granted_hours) || !from.granted_counter) return share;
  share.granted_hours = counted;
  if (!from.used_counter) return share;
  share.used_hours = *from.used_counter / kSecondsOfHour;
  // Scrapes may have missed all of the use. The percentile is then at least the mean.
  if (share.core_p95 && counted > 0) {
    share.core_p95 = std::max(*share.core_p95, *share.used_hours / counted * share.core);
  }
  return share;
}

}  // namespace

UseScope use_scope(Time until, seconds since, const std::string& name_space) {
  UseScope scope;
  scope.step = since <= kShortSince ? kShortStep : kLongStep;
  scope.until = Time(until.time_since_epoch() / scope.step * scope.step);
  scope.from = scope.until - (since + scope.step - seconds(1)) / scope.step * scope.step;
  scope.name_space = name_space;
  return scope;
}

std::vector<UseScope> scopes_with_exported(const UseScope& scope) {
  UseScope exported = scope;
  exported.exported_labels = true;
  UseScope others = scope;
  others.exclude_exported = true;
  return {exported, others};
}

std::string exported_labels_query(const UseScope& scope) {
  return fmt::format("count(max_over_time({}{{exported_pod!=\"\"}}[{}s]))", kLimit,
                     span_of(scope).count());
}

std::string owners_query(const UseScope& scope) {
  return fmt::format(
      "group by ({0}namespace, {0}pod, owner_kind, owner) (max_over_time({1}[{2}s]))",
      prefix_of(scope), selected("mgpu_container_owner_info", scope), span_of(scope).count());
}

std::vector<UseQuery> use_queries(const UseScope& scope) {
  std::vector<UseQuery> queries;
  const seconds part = scope.step * kStepsOfQuery;
  for (Time begin = scope.from; begin < scope.until; begin += part) {
    const Time end = std::min(scope.until, begin + part);
    add_sums(scope, end, end - begin, queries);
  }
  add_extremes(scope, queries);
  return queries;
}

UseQuery percentile_query(const UseScope& scope, std::int64_t steps_most) {
  const std::int64_t parts = (span_of(scope) / scope.step - 1) / steps_most + 1;
  const std::string values =
      fmt::format("{} or {} * 0", joined(kUsed, scope), joined(kLimit, scope));
  return {fmt::format("quantile_over_time(0.95, {})",
                      steps_of(values, span_of(scope), scope.step * parts)),
          scope.until, [](SeriesOfShare& share, double value) { keep_most(share.p95, value); }};
}

void add_use(const promql::Answer& answer, const UseScope& scope, const UseQuery& query,
             SeriesOfShares& shares) {
  const std::string prefix = prefix_of(scope);
  for (const promql::Series& series : answer.series) {
    const double value = series.samples.front().value;
    if (!is_amount(value)) continue;
    const ShareName name(text_of(series, prefix + "namespace"), text_of(series, prefix + "pod"),
                         text_of(series, prefix + "container"), text_of(series, "uuid"));
    query.add(shares[name], value);
  }
}

std::map<PodRef, std::pair<std::string, std::string>> owners_in(const promql::Answer& answer,
                                                                const UseScope& scope) {
  const std::string prefix = prefix_of(scope);
  std::map<PodRef, std::pair<std::string, std::string>> owners;
  for (const promql::Series& series : answer.series) {
    std::pair owner(text_of(series, "owner_kind"), text_of(series, "owner"));
    auto& kept = owners[{text_of(series, prefix + "namespace"), text_of(series, prefix + "pod")}];
    kept = std::max(kept, owner);
  }
  return owners;
}

std::vector<MeasuredShare> shares_of(const SeriesOfShares& shares, const UseScope& scope) {
  const auto cards = measured_cards(shares);
  std::vector<MeasuredShare> measured;
  for (const auto& [name, share] : shares) {
    if (share.limit_steps <= 0 && !share.granted_counter) continue;
    measured.push_back(share_of(name, share, cards.contains(std::get<3>(name)), scope.step));
  }
  return measured;
}

}  // namespace mgpu::kubectl
