// The use of containers from a Prometheus: what it is asked, and what its answers say. Pure.
//
//   granted  integral of mgpu_container_core_limit_ratio, in steps
//   used     integral of mgpu_container_sm_utilization_ratio. It has no value while the processes
//            of a container are idle, on drivers that list only busy ones: that is 0 where another
//            value of the same card shows that its driver measures processes
//
// Where the counters of the device plugin cover that time they are used instead, since the plugin
// samples every five seconds, and counts what happens while nobody scrapes it. A share that
// several Prometheus or scrape jobs have read counts once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "extender/kubectl/waste/shares.h"
#include "extender/prometheus/answer.h"

namespace mgpu::kubectl {

// The time and the shares that are asked about.
struct UseScope {
  Time from{};
  Time until{};
  std::chrono::seconds step{};
  std::string name_space{};  // empty: all
  // Prometheus renames the labels namespace, pod and container of a scraped metric to
  // exported_namespace and so on where the target has labels with these names, unless the scrape
  // job says honor_labels.
  bool exported_labels = false;
  // Leaves out series that have the label exported_pod; another scope reads them.
  bool exclude_exported = false;
};

// Two scopes that together cover all series: those with renamed labels, and those without.
std::vector<UseScope> scopes_with_exported(const UseScope& scope);

// `from` and `until` in whole steps.
UseScope use_scope(Time until, std::chrono::seconds since, const std::string& name_space);

// Namespace, pod, container and the UUID of the card.
using ShareName = std::tuple<std::string, std::string, std::string, std::string>;

// The sums of one share, in steps.
struct SeriesOfShare {
  double limit_sum = 0;  // of the granted part of the card
  double limit_steps = 0;
  double used_sum = 0;             // of the used part
  double used_steps = 0;           // with a value
  double idle_steps = 0;           // without processes
  std::optional<double> core{};    // the largest granted part
  std::optional<double> memory{};  // bytes
  std::optional<double> memory_peak{};
  std::optional<double> p95{};              // of the used part, where no value is 0
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

// Whether Prometheus has renamed the labels: a vector with one series where it has.
std::string exported_labels_query(const UseScope& scope);
// The owners of pods: a series with the labels owner_kind and owner for each.
std::string owners_query(const UseScope& scope);
// Everything else, in the order of time.
std::vector<UseQuery> use_queries(const UseScope& scope);
// The percentile of the used part, in at most so many steps of the same length.
UseQuery percentile_query(const UseScope& scope, std::int64_t steps_most);

void add_use(const promql::Answer& answer, const UseScope& scope, const UseQuery& query,
             SeriesOfShares& shares);
// Of pods by their name; the last one in the order of the text of several.
std::map<PodRef, std::pair<std::string, std::string>> owners_in(const promql::Answer& answer,
                                                                const UseScope& scope);

std::vector<MeasuredShare> shares_of(const SeriesOfShares& shares, const UseScope& scope);

}  // namespace mgpu::kubectl
