// The use of containers from a Prometheus: the queries, and what their answers mean. Pure.
//
//   granted  integral of mgpu_container_core_limit_ratio, in steps
//   used     integral of mgpu_container_sm_utilization_ratio. It has no value while the processes
//            of a container are idle, on drivers that list only busy ones: that is 0 at a step at
//            which another container of the card has a value, the card is idle, or the container
//            has no processes. Otherwise the use at that step is not known
//
// Where the counters of the device plugin agree with that they are used instead, since the plugin
// samples every five seconds, and counts what happens while it is not scraped. A share that
// several Prometheus or scrape jobs have read counts once, with the larger value, also if some
// of them have renamed its labels.
//
// Any target can export series with the names of others. The matchers of a scope select the targets
// count.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/result.h"
#include "extender/kubectl/waste/shares.h"
#include "extender/prometheus/answer.h"

namespace mgpu::kubectl {

// The time and the shares of a query.
struct UseScope {
  Time from{};
  Time until{};
  std::chrono::seconds step{};
  std::string name_space{};  // empty: all
  std::string matcher{};     // of the series of device plugins; empty: every series
};

// The job of the chart's ServiceMonitor is mgpu-device-plugin-metrics.
inline constexpr const char* kMatcherDefault = "job=~\".*mgpu.*\"";

// `from` and `until` in whole steps.
UseScope use_scope(Time until, std::chrono::seconds since, const std::string& name_space,
                   const std::string& matcher);

// Errors: the text is not a list of label matchers.
Result<void> check_matcher(const std::string& matcher);

// Namespace, pod, container and the UUID of the card.
using ShareName = std::tuple<std::string, std::string, std::string, std::string>;

// The sums of one share, in steps.
struct SeriesOfShare {
  double limit_sum = 0;  // of the granted part of the card
  double limit_steps = 0;
  double used_sum = 0;             // of the used part
  double measured_steps = 0;       // at which the driver measures the card
  double idle_steps = 0;           // of the others, those without processes
  std::optional<double> core{};    // the largest granted part
  std::optional<double> memory{};  // bytes
  std::optional<double> memory_peak{};
  std::optional<double> p95{};              // of the used part; not known is the whole share
  std::optional<double> granted_counter{};  // seconds of the card
  std::optional<double> used_counter{};
};
using SeriesOfShares = std::map<ShareName, SeriesOfShare>;

// A query and what its values are.
struct UseQuery {
  std::string expression;
  Time at{};
  std::function<void(SeriesOfShare& share, double value)> add;
};

// Whether Prometheus has shares and none that match: a vector with one series if that is so.
std::string unmatched_query(const UseScope& scope);
// The owners of pods: a series with the labels owner_kind and owner for each.
std::string owners_query(const UseScope& scope);
// Everything else, in the order of time.
std::vector<UseQuery> use_queries(const UseScope& scope);
// The percentile of the used part, in at most so many steps of the same length.
UseQuery percentile_query(const UseScope& scope, std::int64_t steps_most);

void add_use(const promql::Answer& answer, const UseQuery& query, SeriesOfShares& shares);
// Returns the owners of pods; of several the last one in the order of the text.
std::map<PodRef, std::pair<std::string, std::string>> owners_in(const promql::Answer& answer);

std::vector<MeasuredShare> shares_of(const SeriesOfShares& shares, const UseScope& scope);

}  // namespace mgpu::kubectl
