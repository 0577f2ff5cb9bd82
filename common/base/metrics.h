// Metrics in Prometheus' text format, by prometheus-cpp. A component's own metrics stand behind its
// probe (extender/probe.h). Any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace mgpu {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::MetricFamily;

class Metrics {
 public:
  // Names follow prometheus.io/docs/practices/naming: base unit last, counters end in _total. What
  // is returned lives as long as this object. Equal name and labels give the same metric. A name or
  // label that Prometheus does not take, or one name for two kinds, is a mistake of the program:
  // prometheus-cpp throws.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // `buckets` ascending upper bounds.
  Histogram& histogram(const std::string& name, const std::string& help,
                       const std::vector<double>& buckets, const Labels& labels = {});
  // For things that come and go: these families have exactly these series from now on. No text()
  // shows a part of one call. REQUIRES: no counter(), gauge() or histogram() has such a name.
  void replace(std::vector<MetricFamily> families);
  // Called before each text(), to set gauges that are cheaper to read than to follow.
  void on_collect(std::function<void()> refresh);

  // What GET /metrics answers; content type kMetricsContentType.
  std::string text();

 private:
  prometheus::Registry registry_;
  Mutex mutex_;
  std::map<std::string, MetricFamily> replaced_ MGPU_GUARDED_BY(mutex_);  // none is empty
  Mutex refresh_mutex_;
  std::vector<std::function<void()>> refreshes_ MGPU_GUARDED_BY(refresh_mutex_);
};

// A series for replace(), of a counter or a gauge.
prometheus::ClientMetric series(const Labels& labels, double value);

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Upper bounds in seconds from 50 microseconds to 10 seconds.
std::vector<double> latency_buckets_seconds();

}  // namespace mgpu
