#include "common/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "common/check.h"

namespace mgpu {
namespace {

// prometheus.io/docs/concepts/data_model: [a-zA-Z_:][a-zA-Z0-9_:]*, labels without the colon.
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

bool is_name(const std::string& name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

class PrometheusCounter final : public Counter {
 public:
  explicit PrometheusCounter(prometheus::Counter& counter) : counter_(&counter) {}
  void add(double amount) override {
    MGPU_CHECK(amount >= 0, "a counter never goes down");
    counter_->Increment(amount);
  }

 private:
  prometheus::Counter* counter_;
};

class PrometheusGauge final : public Gauge {
 public:
  explicit PrometheusGauge(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  void set(double value) override { gauge_->Set(value); }

 private:
  prometheus::Gauge* gauge_;
};

class PrometheusHistogram final : public Histogram {
 public:
  explicit PrometheusHistogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void observe(double value) override { histogram_->Observe(value); }

 private:
  prometheus::Histogram* histogram_;
};

enum class Kind { kCounter, kGauge, kHistogram, kFamily };

struct Key {
  std::string name;
  prometheus::Labels labels;
  bool operator<(const Key& other) const {
    return std::tie(name, labels) < std::tie(other.name, other.labels);
  }
};

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, Kind> kinds;
  std::map<Key, std::unique_ptr<Counter>> counters;
  std::map<Key, std::unique_ptr<Gauge>> gauges;
  std::map<Key, std::unique_ptr<Histogram>> histograms;
  std::map<std::string, prometheus::MetricFamily> families;
  std::mutex refresh_mutex;
  std::vector<std::function<void()>> refreshes;

  Key key_of(const std::string& name, Kind kind, const Labels& labels);
  prometheus::MetricFamily to_prometheus(const MetricFamily& family);
  std::vector<prometheus::MetricFamily> collect();
};

// REQUIRES: the mutex is held.
Key Metrics::State::key_of(const std::string& name, Kind kind, const Labels& labels) {
  MGPU_CHECK(is_name(name), "not a metric name");
  MGPU_CHECK(kinds.emplace(name, kind).first->second == kind, "metric of another kind exists");
  Key key{name, {}};
  for (const auto& [label, value] : labels) {
    MGPU_CHECK(is_name(label) && !label.starts_with("__") && label != "le", "not a label name");
    MGPU_CHECK(key.labels.emplace(label, value).second, "label given twice");
  }
  return key;
}

// REQUIRES: the mutex is held.
prometheus::MetricFamily Metrics::State::to_prometheus(const MetricFamily& family) {
  const bool is_counter = family.kind == MetricFamily::Kind::kCounter;
  MGPU_CHECK(!is_counter || family.name.ends_with("_total"), "a counter's name ends in _total");
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const auto& [labels, value] : family.series) {
    const Key key = key_of(family.name, Kind::kFamily, labels);
    prometheus::ClientMetric& metric = out.metric.emplace_back();
    for (const auto& [label, text] : key.labels) metric.label.push_back({label, text});
    (is_counter ? metric.counter.value : metric.gauge.value) = value;
  }
  return out;
}

std::vector<prometheus::MetricFamily> Metrics::State::collect() {
  auto collected = registry.Collect();
  const std::lock_guard lock(mutex);
  for (const auto& [name, family] : families) collected.push_back(family);
  return collected;
}

Metrics::Metrics() : state_(std::make_unique<State>()) {}

Metrics::~Metrics() = default;

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  MGPU_CHECK(name.ends_with("_total"), "a counter's name ends in _total");
  const std::lock_guard lock(state_->mutex);
  const Key key = state_->key_of(name, Kind::kCounter, labels);
  auto& counter = state_->counters[key];
  if (!counter) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry);
    counter = std::make_unique<PrometheusCounter>(family.Add(key.labels));
  }
  return *counter;
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(state_->mutex);
  const Key key = state_->key_of(name, Kind::kGauge, labels);
  auto& gauge = state_->gauges[key];
  if (!gauge) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry);
    gauge = std::make_unique<PrometheusGauge>(family.Add(key.labels));
  }
  return *gauge;
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                              const std::vector<double>& buckets, const Labels& labels) {
  MGPU_CHECK(std::is_sorted(buckets.begin(), buckets.end(), std::less_equal<double>()),
             "buckets are not strictly ascending");
  const std::lock_guard lock(state_->mutex);
  const Key key = state_->key_of(name, Kind::kHistogram, labels);
  auto& histogram = state_->histograms[key];
  if (!histogram) {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry);
    histogram = std::make_unique<PrometheusHistogram>(family.Add(key.labels, buckets));
  }
  return *histogram;
}

void Metrics::replace(std::vector<MetricFamily> families) {
  const std::lock_guard lock(state_->mutex);
  for (const MetricFamily& family : families) {
    auto made = state_->to_prometheus(family);
    if (made.metric.empty()) {
      state_->families.erase(family.name);
    } else {
      state_->families.insert_or_assign(family.name, std::move(made));
    }
  }
}

void Metrics::on_collect(std::function<void()> refresh) {
  const std::lock_guard lock(state_->refresh_mutex);
  state_->refreshes.push_back(std::move(refresh));
}

std::string Metrics::text() {
  {
    // One scrape at a time refreshes; a refresh may make metrics, but not call text().
    const std::lock_guard lock(state_->refresh_mutex);
    for (const auto& refresh : state_->refreshes) refresh();
  }
  return prometheus::TextSerializer().Serialize(state_->collect());
}

std::vector<double> latency_buckets_seconds() {
  return {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
          0.05,    0.1,    0.25,    0.5,    1,     2.5,    5,     10};
}

}  // namespace mgpu
