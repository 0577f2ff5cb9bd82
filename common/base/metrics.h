// Metrics in the Prometheus text format, on prometheus-cpp. Thread-safe.
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
  // Names follow prometheus.io/docs/practices/naming: the base unit is last, and counters end in
  // _total. The returned metric lives as long as this object; equal names and labels return the
  // same metric. An illegal name or label, or one name for two kinds, is a bug: prometheus-cpp
  // throws.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // `buckets` are upper bounds, ascending.
  Histogram& histogram(const std::string& name, const std::string& help,
                       const std::vector<double>& buckets, const Labels& labels = {});
  // Sets the series of these families, such as one series for each pod, atomically with respect to
  // text(). Earlier series of the same families are removed. REQUIRES: no counter(), gauge() or
  // histogram() has the name of one of them.
  void replace(std::vector<MetricFamily> families);
  // `refresh` is called before each text(), to set gauges that are not updated continuously.
  void on_collect(std::function<void()> refresh);

  // The response body of GET /metrics, of type kMetricsContentType.
  std::string text();

 private:
  prometheus::Registry registry_;
  Mutex mutex_;
  std::map<std::string, MetricFamily> replaced_ MGPU_GUARDED_BY(mutex_);  // none is empty
  Mutex refresh_mutex_;
  std::vector<std::function<void()>> refreshes_ MGPU_GUARDED_BY(refresh_mutex_);
};

// A series of a counter or gauge for replace(). In the values of labels, bytes that are not UTF-8
// are replaced by U+FFFD, and what is longer than kLabelValueBytesMax is cut.
prometheus::ClientMetric series(const Labels& labels, double value);
// Families for replace(). Names and help texts follow those of Metrics::counter().
MetricFamily gauges(std::string name, std::string help,
                    std::vector<prometheus::ClientMetric> all = {});
MetricFamily counters(std::string name, std::string help,
                      std::vector<prometheus::ClientMetric> all = {});

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Upper bounds in seconds from 50 microseconds to 10 seconds.
std::vector<double> latency_buckets_seconds();

}  // namespace mgpu
