#include "extender/kubectl/waste/prometheus_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/waste/limits.h"
#include "extender/prometheus/query.h"

namespace mgpu::kubectl {
namespace {

using std::chrono::seconds;

constexpr double kSecondsOfHour = 3'600;
constexpr double kCorePercents = 100;
constexpr double kMiBBytes = 1024.0 * 1024.0;
// The counters count for a share if they agree with what its steps sum to.
constexpr double kCounterLeast = 0.9;
constexpr double kCounterMost = 1.1;
// The part of the steps that must be known for a percentile. The others count as the whole share.
constexpr double kPercentileKnown = 0.9;

constexpr const char* kLimit = "mgpu_container_core_limit_ratio";
constexpr const char* kUsed = "mgpu_container_sm_utilization_ratio";
constexpr const char* kProcesses = "mgpu_container_processes";

// metric{a="b",c="d"}
std::string with_matchers(const char* metric, std::vector<std::string> matchers) {
  std::erase(matchers, "");
  return matchers.empty() ? metric : fmt::format("{}{{{}}}", metric, fmt::join(matchers, ","));
}

seconds span_of(const UseScope& scope) {
  return scope.until - scope.from;
}

// The values of a metric with the labels `labels` of the container and `others`, each once,
// whichever job has read it, and whether or not Prometheus has renamed the labels. With a
// `function`, its values over the whole time. The renamed series are aggregated before their labels
// are replaced, since two series of a result must not have the same labels.
std::string joined(const char* metric, const UseScope& scope, const char* function,
                   const std::vector<std::string>& labels, const std::string& others) {
  const auto values = [&](const std::string& prefix, const char* pods) {
    const std::string name_space =
        scope.name_space.empty() ? "" : prefix + "namespace=" + promql::quoted(scope.name_space);
    const std::string selected = with_matchers(metric, {scope.matcher, name_space, pods});
    if (*function == '\0') return selected;
    return fmt::format("{}({}[{}s])", function, selected, span_of(scope).count());
  };
  std::string renamed =
      fmt::format("max by (exported_{}, {}) ({})", fmt::join(labels, ", exported_"), others,
                  values("exported_", "exported_pod!=\"\""));
  for (const std::string& label : labels) {
    renamed = fmt::format("label_replace({0}, \"{1}\", \"$1\", \"exported_{1}\", \"(.*)\")",
                          renamed, label);
  }
  return fmt::format("max by ({}, {}) ({} or {})", fmt::join(labels, ", "), others,
                     values("", "exported_pod=\"\""), renamed);
}

std::string by_share(const char* metric, const UseScope& scope, const char* function = "") {
  return joined(metric, scope, function, {"namespace", "pod", "container"}, "uuid");
}

// Cards whose driver measures the use at a step: it lists the use of a container, or the card is
// idle. Of all namespaces.
std::string measured_cards(const UseScope& scope) {
  const auto by_card = [&](const char* metric) {
    return fmt::format("max by (uuid) ({})", with_matchers(metric, {scope.matcher}));
  };
  return fmt::format("({} or {} == 0)", by_card(kUsed), by_card("mgpu_card_sm_utilization_ratio"));
}

// The steps within `span` before the time of the query. Both ends of a range count in Prometheus 2,
// and only the later one in Prometheus 3: without the last second they are the same steps.
std::string steps_of(const std::string& expression, seconds span, seconds step) {
  return fmt::format("({})[{}s:{}s]", expression, span.count() - 1, step.count());
}

void add_sums(const UseScope& scope, Time end, seconds span, std::vector<UseQuery>& queries) {
  const auto steps = [&](const std::string& expression) {
    return steps_of(expression, span, scope.step);
  };
  const std::string cards = measured_cards(scope);
  const std::string limit = steps(by_share(kLimit, scope));
  const std::string used = steps(by_share(kUsed, scope));
  const std::string measured =
      steps(fmt::format("{} and on (uuid) {}", by_share(kLimit, scope), cards));
  const std::string idle =
      steps(fmt::format("{} == 0 unless on (uuid) {}", by_share(kProcesses, scope), cards));
  using Share = SeriesOfShare;
  const auto add = [&](const char* function, const std::string& range, auto member) {
    queries.push_back({fmt::format("{}({})", function, range), end,
                       [member](Share& share, double value) { share.*member += value; }});
  };
  add("sum_over_time", limit, &Share::limit_sum);
  add("count_over_time", limit, &Share::limit_steps);
  add("sum_over_time", used, &Share::used_sum);
  add("count_over_time", measured, &Share::measured_steps);
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
    add(by_share(metric, scope, function), member);
  };
  over_time("max_over_time", kLimit, &SeriesOfShare::core);
  over_time("max_over_time", "mgpu_container_memory_limit_bytes", &SeriesOfShare::memory);
  over_time("max_over_time", "mgpu_container_memory_used_bytes", &SeriesOfShare::memory_peak);
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

// Characters of label names, operators and strings: nothing that ends the matchers.
bool is_matcher_list(std::string_view text) {
  constexpr std::string_view kOutside =
      "_=!~, 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++i;
    } else if (kOutside.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !quoted;
}

// Counters that do not agree with the sums are those of a part of the time, or wrong.
void use_counters(const SeriesOfShare& from, double held_hours, MeasuredShare& share) {
  if (!from.granted_counter) return;
  const double counted = *from.granted_counter / kSecondsOfHour;
  const double summed = share.granted_hours;
  if (counted < kCounterLeast * summed || counted > kCounterMost * summed) return;
  share.granted_hours = counted;
  if (!from.used_counter) return;
  // A container may use more than its share, and no more than the card.
  share.used_hours = std::min(*from.used_counter / kSecondsOfHour, held_hours);
  // Scrapes may have missed all of the use. The percentile is then at least the mean.
  if (share.core_p95 && counted > 0) {
    share.core_p95 = std::max(*share.core_p95, *share.used_hours / counted * share.core);
  }
}

MeasuredShare share_of(const ShareName& name, const SeriesOfShare& from, seconds step) {
  MeasuredShare share;
  share.pod = {std::get<0>(name), std::get<1>(name)};
  share.container = std::get<2>(name);
  share.uuid = std::get<3>(name);
  share.core = from.core.value_or(0) * kCorePercents;
  share.memory = from.memory.value_or(0) / kMiBBytes;
  if (from.memory_peak) share.memory_peak = *from.memory_peak / kMiBBytes;
  const double step_hours = static_cast<double>(step.count()) / kSecondsOfHour;
  const double held = from.limit_steps;
  const double known = std::min(held, from.measured_steps + from.idle_steps);
  share.granted_hours = from.limit_sum * step_hours;
  share.measured_hours = known * step_hours;
  share.samples = std::llround(known);
  if (known > 0) share.used_hours = from.used_sum * step_hours;
  if (known > 0 && known >= kPercentileKnown * held && from.p95) {
    share.core_p95 = *from.p95 * kCorePercents;
  }
  use_counters(from, held * step_hours, share);
  return share;
}

}  // namespace

UseScope use_scope(Time until, seconds since, const std::string& name_space,
                   const std::string& matcher) {
  UseScope scope;
  scope.step = since <= kShortSince ? kShortStep : kLongStep;
  scope.until = Time(until.time_since_epoch() / scope.step * scope.step);
  scope.from = scope.until - (since + scope.step - seconds(1)) / scope.step * scope.step;
  scope.name_space = name_space;
  scope.matcher = matcher;
  return scope;
}

Result<void> check_matcher(const std::string& matcher) {
  if (is_matcher_list(matcher)) return {};
  return error(fmt::format("--prometheus-matcher must be label matchers such as {}, is {}",
                           kMatcherDefault, in_quotes(matcher)));
}

std::string unmatched_query(const UseScope& scope) {
  const auto count = [&](const std::string& selected) {
    return fmt::format("count(max_over_time({}[{}s]))", selected, span_of(scope).count());
  };
  return fmt::format("{} unless on () {}", count(kLimit),
                     count(with_matchers(kLimit, {scope.matcher})));
}

std::string owners_query(const UseScope& scope) {
  return joined("mgpu_container_owner_info", scope, "max_over_time", {"namespace", "pod"},
                "owner_kind, owner");
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
  const std::string limit = by_share(kLimit, scope);
  const std::string values =
      fmt::format("{} or ({} and on (uuid) {} or {} == 0) * 0 or {}", by_share(kUsed, scope), limit,
                  measured_cards(scope), by_share(kProcesses, scope), limit);
  return {fmt::format("quantile_over_time(0.95, {})",
                      steps_of(values, span_of(scope), scope.step * parts)),
          scope.until, [](SeriesOfShare& share, double value) { keep_most(share.p95, value); }};
}

void add_use(const promql::Answer& answer, const UseQuery& query, SeriesOfShares& shares) {
  for (const promql::Series& series : answer.series) {
    const double value = series.samples.front().value;
    if (!is_amount(value)) continue;
    const ShareName name(text_of(series, "namespace"), text_of(series, "pod"),
                         text_of(series, "container"), text_of(series, "uuid"));
    query.add(shares[name], value);
  }
}

std::map<PodRef, std::pair<std::string, std::string>> owners_in(const promql::Answer& answer) {
  std::map<PodRef, std::pair<std::string, std::string>> owners;
  for (const promql::Series& series : answer.series) {
    std::pair owner(text_of(series, "owner_kind"), text_of(series, "owner"));
    auto& kept = owners[{text_of(series, "namespace"), text_of(series, "pod")}];
    kept = std::max(kept, owner);
  }
  return owners;
}

std::vector<MeasuredShare> shares_of(const SeriesOfShares& shares, const UseScope& scope) {
  std::vector<MeasuredShare> measured;
  for (const auto& [name, share] : shares) {
    if (share.limit_steps > 0) measured.push_back(share_of(name, share, scope.step));
  }
  return measured;
}

}  // namespace mgpu::kubectl
