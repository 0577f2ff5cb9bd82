// The plugin's own metrics as verbs; business code knows nothing of Prometheus. Any thread.
//
//   mgpu_plugin_allocate_duration_seconds
//   mgpu_plugin_prestart_duration_seconds{result}   "started", "refused"; waiting and settling
//                                                   included
//   mgpu_plugin_prestart_refusals_total{reason}     label
//   mgpu_plugin_allocations{state}                  "allocated", "bound"
//   mgpu_plugin_registered{resource}                1 while kubelet reads our list
//   mgpu_plugin_ready                               what /readyz says
//   mgpu_plugin_scrape_duration_seconds             the last sample of use
//   mgpu_plugin_events_dropped_total
//   mgpu_plugin_unreadable_pods_total               pods of the API server that were skipped
//   mgpu_mps_up{uuid}, mgpu_mps_restarts_total{uuid}
//   mgpu_plugin_build_info{version}, process_resident_memory_bytes
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "plugin/allocation/decide.h"
#include "plugin/cards/mps.h"

namespace mgpu::plugin {

class AgentMetrics {
 public:
  explicit AgentMetrics(Metrics& metrics);  // outlives it, and is not read after its end

  // Runs before each reading of the metrics, to tell what is cheaper to read than to follow.
  void before_reading(std::function<void()> tell);
  void allocated(std::chrono::nanoseconds took);
  void started(std::chrono::nanoseconds took);
  void refused(RefusalReason reason, std::chrono::nanoseconds took);
  void allocations(std::size_t allocated, std::size_t bound);
  void registered(const std::string& resource, bool registered);
  void ready(bool ready);
  void sampled(std::chrono::nanoseconds took);
  void events_dropped(std::uint64_t total);
  void unreadable_pods(std::uint64_t total);
  void mps(const std::vector<MpsState>& states);

 private:
  Histogram& prestart(const char* result);

  Metrics& metrics_;
  Histogram& allocate_;
  Histogram& started_;
  Histogram& refused_;
  Gauge& ready_;
  Gauge& scrape_;
  Counter& unreadable_;
  Counter& dropped_;
  Mutex mutex_;
  std::uint64_t dropped_before_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t unreadable_before_ MGPU_GUARDED_BY(mutex_) = 0;
  std::map<CardUuid, std::int64_t> restarts_before_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
