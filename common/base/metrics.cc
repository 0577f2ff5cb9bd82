#include "common/base/metrics.h"

#include <prometheus/text_serializer.h>

#include <set>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

// prometheus-cpp validates names and labels, except for this label.
const Labels& checked(const Labels& labels) {
  MGPU_CHECK(!labels.contains("le"), "the label \"le\" is reserved for histograms");
  return labels;
}

// Prometheus refuses a whole response in which one label is not UTF-8.
std::string label_value(std::string_view text) {
  return valid_text(cut_text(text, kLabelValueBytesMax));
}

}  // namespace

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  MGPU_CHECK(name.ends_with("_total"), "a counter's name ends in _total");
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(checked(labels));
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(checked(labels));
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                              const std::vector<double>& buckets, const Labels& labels) {
  MGPU_CHECK(std::is_sorted(buckets.begin(), buckets.end(), std::less_equal<double>()),
             "buckets are not strictly ascending");
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(checked(labels),
                                                                                    buckets);
}

void Metrics::replace(std::vector<MetricFamily> families) {
  const MutexLock lock(mutex_);
  for (MetricFamily& family : families) {
    if (family.metric.empty()) {
      replaced_.erase(family.name);
    } else {
      replaced_.insert_or_assign(family.name, std::move(family));
    }
  }
}

void Metrics::on_collect(std::function<void()> refresh) {
  const MutexLock lock(refresh_mutex_);
  refreshes_.push_back(std::move(refresh));
}

std::string Metrics::text() {
  {
    // Scrapes refresh one at a time. A refresh may create metrics, but not call text().
    const MutexLock lock(refresh_mutex_);
    for (const auto& refresh : refreshes_) refresh();
  }
  auto families = registry_.Collect();
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, family] : replaced_) families.push_back(family);
  }
  std::set<std::string_view> names;
  for (const MetricFamily& family : families) {
    MGPU_CHECK(names.insert(family.name).second, "metric of another kind exists");
  }
  return prometheus::TextSerializer().Serialize(families);
}

prometheus::ClientMetric series(const Labels& labels, double value) {
  prometheus::ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({name, label_value(text)});
  metric.counter.value = value;
  metric.gauge.value = value;
  return metric;
}

MetricFamily gauges(std::string name, std::string help, std::vector<prometheus::ClientMetric> all) {
  return {std::move(name), std::move(help), prometheus::MetricType::Gauge, std::move(all)};
}

MetricFamily counters(std::string name, std::string help,
                      std::vector<prometheus::ClientMetric> all) {
  return {std::move(name), std::move(help), prometheus::MetricType::Counter, std::move(all)};
}

std::vector<double> latency_buckets_seconds() {
  return {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
          0.05,    0.1,    0.25,    0.5,    1,     2.5,    5,     10};
}

}  // namespace mgpu
