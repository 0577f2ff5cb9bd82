#include "plugin/probe.h"

#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>
#include <utility>

namespace mgpu {

namespace {

using std::chrono::duration;

double seconds(std::chrono::nanoseconds took) {
  return duration<double>(took).count();
}

// Zero where /proc is not there.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Probe::State {
  explicit State(Metrics& its_metrics) : metrics(its_metrics) {}

  Histogram& prestart(const char* result) {
    return metrics.histogram("mgpu_plugin_prestart_duration_seconds",
                             "From kubelet's PreStartContainer to our answer.",
                             latency_buckets_seconds(), {{"result", result}});
  }
  Gauge& allocations(const char* state) {
    return metrics.gauge("mgpu_plugin_allocations", "Containers with devices of ours, by state.",
                         {{"state", state}});
  }

  Metrics& metrics;
  Histogram& allocate =
      metrics.histogram("mgpu_plugin_allocate_duration_seconds",
                        "From kubelet's Allocate to our answer.", latency_buckets_seconds());
  Histogram& started = prestart("started");
  Histogram& refused = prestart("refused");
  Gauge& ready = metrics.gauge("mgpu_plugin_ready", "1 when GET /readyz answers 200.");
  Gauge& scrape = metrics.gauge("mgpu_plugin_scrape_duration_seconds",
                                "How long the last sample of the cards' use took.");
  Gauge& resident = metrics.gauge("process_resident_memory_bytes", "Resident memory.");
  Counter& unreadable = metrics.counter("mgpu_plugin_unreadable_pods_total",
                                        "Pods of the API server that could not be read.");
  Counter& dropped = metrics.counter("mgpu_plugin_events_dropped_total",
                                     "Events that were not sent: too many at once.");
  std::mutex mutex;
  std::uint64_t dropped_before = 0;  // protected by mutex, as the next two
  std::uint64_t unreadable_before = 0;
  std::map<CardUuid, std::int64_t> restarts_before;
};

Probe::Probe(Metrics& metrics) : state_(std::make_unique<State>(metrics)) {
  metrics.gauge("mgpu_plugin_build_info", "1; the version is a label.", {{"version", MGPU_VERSION}})
      .Set(1);
}

Probe::~Probe() = default;

void Probe::before_reading(std::function<void()> tell) {
  state_->metrics.on_collect([this, tell = std::move(tell)] {
    state_->resident.Set(resident_bytes());
    tell();
  });
}

void Probe::allocated(std::chrono::nanoseconds took) {
  state_->allocate.Observe(seconds(took));
}

void Probe::started(std::chrono::nanoseconds took) {
  state_->started.Observe(seconds(took));
}

void Probe::refused(allocation::RefusalReason reason, std::chrono::nanoseconds took) {
  state_->refused.Observe(seconds(took));
  state_->metrics
      .counter("mgpu_plugin_prestart_refusals_total", "PreStartContainer calls refused, by reason.",
               {{"reason", std::string(label(reason))}})
      .Increment();
}

void Probe::allocations(std::size_t allocated, std::size_t bound) {
  state_->allocations("allocated").Set(static_cast<double>(allocated));
  state_->allocations("bound").Set(static_cast<double>(bound));
}

void Probe::registered(const std::string& resource, bool registered) {
  state_->metrics
      .gauge("mgpu_plugin_registered", "1 while kubelet reads our list of devices.",
             {{"resource", resource}})
      .Set(registered ? 1 : 0);
}

void Probe::ready(bool ready) {
  state_->ready.Set(ready ? 1 : 0);
}

void Probe::sampled(std::chrono::nanoseconds took) {
  state_->scrape.Set(seconds(took));
}

void Probe::events_dropped(std::uint64_t total) {
  const std::lock_guard lock(state_->mutex);
  state_->dropped.Increment(
      static_cast<double>(total - std::exchange(state_->dropped_before, total)));
}

void Probe::unreadable_pods(std::uint64_t total) {
  const std::lock_guard lock(state_->mutex);
  const std::uint64_t before = std::exchange(state_->unreadable_before, total);
  state_->unreadable.Increment(static_cast<double>(total - before));
}

void Probe::mps(const std::vector<gpu::MpsState>& states) {
  const std::lock_guard lock(state_->mutex);
  for (const gpu::MpsState& one : states) {
    const Labels labels = {{"uuid", one.uuid.str()}};
    state_->metrics.gauge("mgpu_mps_up", "1 while the card's MPS daemon answers.", labels)
        .Set(one.running ? 1 : 0);
    const auto before = std::exchange(state_->restarts_before[one.uuid], one.restarts);
    state_->metrics.counter("mgpu_mps_restarts_total", "Restarts of the card's MPS daemon.", labels)
        .Increment(static_cast<double>(one.restarts - before));
  }
}

}  // namespace mgpu
