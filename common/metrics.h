// Metrics in Prometheus' text format. Home of prometheus-cpp: callers hold plain handles, and a
// component's own metrics stand behind its probe (extender/probe.h). Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mgpu {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double amount = 1) = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

// All series of one name, for things that come and go: what is no longer listed is gone from the
// text too.
struct MetricFamily {
  enum class Kind { kCounter, kGauge };
  struct Series {
    Labels labels;
    double value = 0;
  };
  std::string name;  // of a counter: ends in _total
  std::string help;
  Kind kind = Kind::kGauge;
  std::vector<Series> series;  // no labels twice
};

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Names follow prometheus.io/docs/practices/naming: base unit last, counters end in _total. The
  // handle lives as long as this object. Equal name and labels give the same metric.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // `buckets` ascending upper bounds.
  Histogram& histogram(const std::string& name, const std::string& help,
                       const std::vector<double>& buckets, const Labels& labels = {});
  // These families have exactly these series from now on. No text() shows a part of one call.
  // REQUIRES: no counter(), gauge() or histogram() has such a name.
  void replace(std::vector<MetricFamily> families);
  // Called before each text(), to set gauges that are cheaper to read than to follow.
  void on_collect(std::function<void()> refresh);

  // What GET /metrics answers; content type kMetricsContentType.
  std::string text();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Upper bounds in seconds from 50 microseconds to 10 seconds.
std::vector<double> latency_buckets_seconds();

}  // namespace mgpu
