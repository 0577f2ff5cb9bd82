// kubectl mgpu waste
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/rfc3339.h"
#include "common/base/text.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/waste/collect.h"
#include "extender/kubectl/waste/limits.h"
#include "extender/kubectl/waste/view.h"
#include "extender/prometheus/flags.h"

namespace mgpu::kubectl {
namespace {

constexpr std::int64_t kMarginDefault = 20;
constexpr std::int64_t kMarginMax = 400;
const std::vector<std::string> kWasteFormats = {"table", "wide", "json", "yaml", "csv"};
const std::vector<std::string> kWasteGroups = {"pod", "owner", "namespace"};

WasteBy group_of(const std::string& by) {
  if (by == "owner") return WasteBy::kOwner;
  return by == "namespace" ? WasteBy::kNamespace : WasteBy::kPod;
}

class WasteVerb {
 public:
  void add_flags(Options& options) {
    prometheus_.url = environment_variable("MGPU_PROMETHEUS_URL");
    add_pod_selection_flags(options, choice_);
    options.add_choice("by", "What the rows are.", by_, kWasteGroups);
    promql::add_prometheus_flags(
        options, prometheus_,
        "URL of a Prometheus that scrapes the device plugins. It is required; "
        "$MGPU_PROMETHEUS_URL sets the default.");
    options.add_duration("since", "Length of the time that ends at --until.", since_, kSinceMin,
                         kSinceMax);
    options.add_text("until",
                     "End of the time, such as 2026-01-02T03:04:05Z. If empty, the time ends now.",
                     until_);
    options.add_text("prometheus-matcher",
                     "Label matchers of the series of device plugins in Prometheus, without "
                     "braces. If empty, series of all jobs count, also those that pods of tenants "
                     "export.",
                     matcher_);
    options.add_number(
        "margin",
        fmt::format("Percent that a suggestion adds to the 95th percentile of the compute, rounded "
                    "up to {} core, and to the peak of the memory, rounded up to {} MiB, and at "
                    "least {} MiB if as much was granted. Nothing "
                    "is suggested for less than {} measured hour and {} samples.",
                    kSuggestCoreStep, kSuggestMemoryStep, kSuggestMemoryMin, kSuggestHoursMin,
                    kSuggestSamplesMin),
        margin_, 0, kMarginMax);
    add_view_flags(options, shown_, kWasteFormats);
    add_cluster_flags(options, access_);
    for (const char* name : {"plugin-url", "plugin-metrics-port", "mgpu-namespace"}) {
      options.add_removed(name, "waste reads a Prometheus alone, at --prometheus-url");
    }
    options.check([this] { return check_flags(); });
  }
  Result<int> run(Console& console) {
    // With all that is asked in Prometheus, no API server is needed.
    auto cluster = Cluster::connect(access_);
    const bool needs_cluster =
        !choice_.selector.empty() || (!choice_.all && choice_.name_space.empty());
    if (!cluster && needs_cluster) return cluster.error();
    const std::string name_space =
        namespace_of(choice_.name_space, cluster ? (*cluster)->config() : kube::Config());
    auto facts = collect(name_space);
    if (!facts) return facts.error();
    if (auto chosen = choose(cluster, name_space, *facts); !chosen) {
      return chosen.error();
    }
    if (by_ == "owner") add_owners(*facts);
    if (auto printed = print(*facts, console); !printed) return printed.error();
    return fail(console, facts->problems);
  }

 private:
  using Connection = Result<std::unique_ptr<Cluster>>;

  Result<void> check_flags() const {
    const auto config = promql::prometheus_config(prometheus_);
    if (!config) return config.error();
    if (prometheus_.url.empty()) {
      return error(
          "a Prometheus that scrapes the device plugins is needed; set --prometheus-url or "
          "$MGPU_PROMETHEUS_URL, for example to http://127.0.0.1:9090 with kubectl port-forward");
    }
    if (auto checked = check_matcher(matcher_); !checked) return checked;
    if (!until_.empty() && !read_rfc3339(until_)) {
      return error("--until must be a time such as 2026-01-02T03:04:05Z, found " +
                   in_quotes(until_));
    }
    return {};
  }

  Result<UseFacts> collect(const std::string& name_space) const {
    const Time until = read_rfc3339(until_).value_or(clock_now());
    const auto since = std::chrono::duration_cast<std::chrono::seconds>(since_);
    return collect_from_prometheus(
        prometheus_, use_scope(until, since, choice_.all ? "" : name_space, matcher_));
  }

  // Leaves out the shares of other namespaces, and of pods without the labels.
  Result<void> choose(const Connection& cluster, const std::string& name_space,
                      UseFacts& facts) const {
    std::erase_if(facts.shares, [&](const MeasuredShare& share) {
      return !choice_.all && share.pod.name_space != name_space;
    });
    if (choice_.selector.empty()) return {};
    const auto pods = selected_pods((*cluster)->api(), choice_, name_space);
    if (!pods) return pods.error();
    std::erase_if(facts.shares,
                  [&](const MeasuredShare& share) { return !pods->contains(share.pod); });
    return {};
  }

  // A pod whose owner Prometheus does not have is its own owner.
  static void add_owners(UseFacts& facts) {
    for (MeasuredShare& share : facts.shares) {
      if (!share.owner.empty()) continue;
      share.owner_kind = "Pod";
      share.owner = share.pod.name;
    }
  }

  Result<void> print(const UseFacts& facts, Console& console) const {
    const WasteBy by = group_of(by_);
    const auto rows = waste_rows(facts.shares, by, margin_);
    if (shown_.output == "csv") {
      console.print(waste_csv(rows, facts));
      return {};
    }
    View view = waste_view(rows, facts, by, choice_.all);
    if (!facts.problems.empty()) view.empty = "No shares found in what could be read.";
    if (!facts.problems.empty()) view.json["problems"] = facts.problems;
    if (auto printed = show(view, shown_, console); !printed) return printed;
    if (view.table.empty() || !shown_.is_table()) return {};
    const char* const incomplete = facts.problems.empty() ? "" : "Incomplete. ";
    console.print(fmt::format("\n{}{}\n{}\n", incomplete, total_text(rows), source_text(facts)));
    return {};
  }

  ClusterFlags access_;
  PodChoice choice_;
  promql::Access prometheus_;
  std::string by_ = "pod";
  std::string until_;
  std::string matcher_ = kMatcherDefault;
  ViewFlags shown_;
  Duration since_ = kShortSince;
  std::int64_t margin_ = kMarginDefault;
};

}  // namespace

Run add_waste(Options& options) {
  return add_command<WasteVerb>(options);
}

}  // namespace mgpu::kubectl
