#include "plugin/agent/agent_metrics.h"

#include <algorithm>
#include <utility>

#include "common/program/service_routes.h"

namespace mgpu::plugin {

namespace {

double seconds(std::chrono::nanoseconds took) {
  return std::chrono::duration<double>(took).count();
}

// A series for each reason, so that a finding that ends is seen.
MetricFamily access_family(const std::optional<AccessReport>& access) {
  auto family = gauges("mgpu_other_access",
                       "1 if other software can give cards of this node to containers, by reason. "
                       "The reason NotChecked is 1 if the check was incomplete.");
  if (!access) return family;
  for (const std::string& reason : other_access_reasons()) {
    const bool found =
        std::ranges::find(access->found, reason, &OtherAccess::reason) != access->found.end();
    family.metric.push_back(series({{"reason", reason}}, found ? 1 : 0));
  }
  family.metric.push_back(series({{"reason", "NotChecked"}}, access->unknown.empty() ? 0 : 1));
  return family;
}

MetricFamily drift_family(const std::map<DriftKind, std::size_t>& drifts) {
  auto family =
      gauges("mgpu_drifts",
             "Number of differences between annotations, records and processes on cards, by kind.");
  for (const auto& [kind, number] : drifts) {
    family.metric.push_back(
        series({{"kind", std::string(to_string(kind))}}, static_cast<double>(number)));
  }
  return family;
}

MetricFamily self_test_family(const std::map<CardUuid, SelfTest>& tests) {
  auto family = gauges("mgpu_plugin_self_test",
                       "1 for the result of the self test of the library on the card.");
  for (const auto& [card, test] : tests) {
    family.metric.push_back(
        series({{"uuid", card.str()}, {"result", std::string(to_string(test.outcome))}}, 1));
  }
  return family;
}

}  // namespace

AgentMetrics::AgentMetrics(Metrics& metrics)
    : metrics_(metrics),
      allocate_(metrics.histogram("mgpu_plugin_allocate_duration_seconds", "Duration of Allocate.",
                                  latency_buckets_seconds())),
      started_(prestart("started")),
      refused_(prestart("refused")),
      scrape_(metrics.gauge("mgpu_plugin_scrape_duration_seconds",
                            "Duration of the last sample of the use of the cards.")) {
  for (int i = 0; i <= static_cast<int>(RefusalReason::kNotReady); ++i) refusals(RefusalReason(i));
  add_process_metrics(metrics, "mgpu_plugin");
}

Histogram& AgentMetrics::prestart(const char* result) {
  return metrics_.histogram("mgpu_plugin_prestart_duration_seconds",
                            "Duration of PreStartContainer by result, including retries.",
                            latency_buckets_seconds(), {{"result", result}});
}

void AgentMetrics::allocated(std::chrono::nanoseconds took) {
  allocate_.Observe(seconds(took));
}

void AgentMetrics::started(std::chrono::nanoseconds took) {
  started_.Observe(seconds(took));
}

void AgentMetrics::refused(RefusalReason reason, std::chrono::nanoseconds took) {
  refused_.Observe(seconds(took));
  refusals(reason).Increment();
}

// The series exist from the start, so that the first refusal is an increase.
Counter& AgentMetrics::refusals(RefusalReason reason) {
  return metrics_.counter("mgpu_plugin_prestart_refusals_total",
                          "Number of refused PreStartContainer calls by reason.",
                          {{"reason", std::string(to_string(reason))}});
}

void AgentMetrics::sampled(std::chrono::nanoseconds took) {
  scrape_.Set(seconds(took));
}

void AgentMetrics::update(const Status& status) {
  auto registered =
      gauges("mgpu_plugin_registered", "1 while kubelet reads the devices of the resource.");
  for (const auto& [resource, is_registered] : status.registered) {
    registered.metric.push_back(series({{"resource", resource}}, is_registered ? 1 : 0));
  }
  auto mps_up = gauges("mgpu_mps_up",
                       "1 while the MPS daemon of the card answers. With protocol 3 containers "
                       "have namespaces, whose percentage only root can raise.");
  auto mps_restarts =
      counters("mgpu_mps_restarts_total", "Number of restarts of the MPS daemon of the card.");
  for (const MpsState& one : status.mps) {
    mps_up.metric.push_back(
        series({{"uuid", one.uuid.str()}, {"protocol", one.v3 ? "3" : "2"}}, one.running ? 1 : 0));
    mps_restarts.metric.push_back(
        series({{"uuid", one.uuid.str()}}, static_cast<double>(one.restarts)));
  }
  auto exclusive =
      gauges("mgpu_mps_exclusive",
             "1 while the compute mode of the card keeps programs out that do not use MPS.");
  for (const MpsState& one : status.mps) {
    const auto found = status.exclusive.find(one.uuid);
    const bool is_exclusive = found != status.exclusive.end() && found->second;
    exclusive.metric.push_back(series({{"uuid", one.uuid.str()}}, is_exclusive ? 1 : 0));
  }
  auto isolation =
      gauges("mgpu_plugin_isolation", "1 for the way in which the memory of shares is limited.");
  if (!status.isolation.empty()) {
    isolation.metric.push_back(series({{"isolation", status.isolation}}, 1));
  }
  std::vector<MetricFamily> families = {
      std::move(registered),
      std::move(isolation),
      std::move(mps_up),
      std::move(mps_restarts),
      std::move(exclusive),
      access_family(status.access),
      drift_family(status.drifts),
      gauges("mgpu_plugin_ready", "1 while GET /readyz answers 200.",
             {series({}, status.ready ? 1 : 0)}),
      gauges("mgpu_plugin_allocations", "Number of containers with allocated devices by state.",
             {series({{"state", "allocated"}}, static_cast<double>(status.allocated)),
              series({{"state", "bound"}}, static_cast<double>(status.bound))}),
      counters("mgpu_plugin_unreadable_objects_total",
               "Number of times an object from the API server could not be read.",
               {series({{"resource", "pods"}}, static_cast<double>(status.unreadable_pods)),
                series({{"resource", "nodes"}}, static_cast<double>(status.unreadable_nodes))}),
      counters("mgpu_plugin_events_dropped_total",
               "Number of Events that were not sent, or whose request failed.",
               {series({}, static_cast<double>(status.events_dropped))})};
  // Without the library there are no such tests.
  if (!status.self_tests.empty()) families.push_back(self_test_family(status.self_tests));
  metrics_.replace(std::move(families));
}

}  // namespace mgpu::plugin
