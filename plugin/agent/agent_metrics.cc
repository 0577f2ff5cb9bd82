#include "plugin/agent/agent_metrics.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/program/service_routes.h"

namespace mgpu::plugin {

namespace {

double seconds(std::chrono::nanoseconds took) {
  return std::chrono::duration<double>(took).count();
}

}  // namespace

AgentMetrics::AgentMetrics(Metrics& metrics)
    : metrics_(metrics),
      allocate_(metrics.histogram("mgpu_plugin_allocate_duration_seconds",
                                  "From kubelet's Allocate to our answer.",
                                  latency_buckets_seconds())),
      started_(prestart("started")),
      refused_(prestart("refused")),
      ready_(metrics.gauge("mgpu_plugin_ready", "1 when GET /readyz answers 200.")),
      scrape_(metrics.gauge("mgpu_plugin_scrape_duration_seconds",
                            "How long the last sample of the cards' use took.")),
      unreadable_(metrics.counter("mgpu_plugin_unreadable_pods_total",
                                  "Pods of the API server that could not be read.")),
      dropped_(metrics.counter("mgpu_plugin_events_dropped_total",
                               "Events that were not sent: too many at once.")) {
  add_process_metrics(metrics, "mgpu_plugin");
}

Histogram& AgentMetrics::prestart(const char* result) {
  return metrics_.histogram("mgpu_plugin_prestart_duration_seconds",
                            "From kubelet's PreStartContainer to our answer.",
                            latency_buckets_seconds(), {{"result", result}});
}

void AgentMetrics::before_reading(std::function<void()> tell) {
  metrics_.on_collect(std::move(tell));
}

void AgentMetrics::allocated(std::chrono::nanoseconds took) {
  allocate_.Observe(seconds(took));
}

void AgentMetrics::started(std::chrono::nanoseconds took) {
  started_.Observe(seconds(took));
}

void AgentMetrics::refused(RefusalReason reason, std::chrono::nanoseconds took) {
  refused_.Observe(seconds(took));
  metrics_
      .counter("mgpu_plugin_prestart_refusals_total", "PreStartContainer calls refused, by reason.",
               {{"reason", std::string(label(reason))}})
      .Increment();
}

void AgentMetrics::allocations(std::size_t allocated, std::size_t bound) {
  const auto set = [this](const char* state, std::size_t count) {
    metrics_
        .gauge("mgpu_plugin_allocations", "Containers with devices of ours, by state.",
               {{"state", state}})
        .Set(static_cast<double>(count));
  };
  set("allocated", allocated);
  set("bound", bound);
}

void AgentMetrics::registered(const std::string& resource, bool registered) {
  metrics_
      .gauge("mgpu_plugin_registered", "1 while kubelet reads our list of devices.",
             {{"resource", resource}})
      .Set(registered ? 1 : 0);
}

void AgentMetrics::ready(bool ready) {
  ready_.Set(ready ? 1 : 0);
}

void AgentMetrics::sampled(std::chrono::nanoseconds took) {
  scrape_.Set(seconds(took));
}

void AgentMetrics::events_dropped(std::uint64_t total) {
  const MutexLock lock(mutex_);
  dropped_.Increment(static_cast<double>(total - std::exchange(dropped_before_, total)));
}

void AgentMetrics::unreadable_pods(std::uint64_t total) {
  const MutexLock lock(mutex_);
  const std::uint64_t before = std::exchange(unreadable_before_, total);
  unreadable_.Increment(static_cast<double>(total - before));
}

void AgentMetrics::mps(const std::vector<MpsState>& states) {
  const MutexLock lock(mutex_);
  for (const MpsState& one : states) {
    const Labels labels = {{"uuid", one.uuid.str()}};
    metrics_.gauge("mgpu_mps_up", "1 while the card's MPS daemon answers.", labels)
        .Set(one.running ? 1 : 0);
    const auto before = std::exchange(restarts_before_[one.uuid], one.restarts);
    metrics_.counter("mgpu_mps_restarts_total", "Restarts of the card's MPS daemon.", labels)
        .Increment(static_cast<double>(one.restarts - before));
  }
}

}  // namespace mgpu::plugin
