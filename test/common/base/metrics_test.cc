#include "common/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/limits.h"

namespace mgpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Metrics, CountersGaugesAndHistogramsAreInTheText) {
  Metrics metrics;
  Counter& binds = metrics.counter("mgpu_binds_total", "Binds.", {{"outcome", "bound"}});
  binds.Increment();
  binds.Increment(2);
  metrics.gauge("mgpu_cards", "Cards.").Set(8);
  Histogram& seconds = metrics.histogram("mgpu_filter_seconds", "Filters.", {0.1, 1});
  seconds.Observe(0.05);
  seconds.Observe(0.5);
  seconds.Observe(7);
  EXPECT_THAT(
      metrics.text(),
      AllOf(HasSubstr("# HELP mgpu_binds_total Binds.\n# TYPE mgpu_binds_total counter\n"
                      "mgpu_binds_total{outcome=\"bound\"} 3\n"),
            HasSubstr("# TYPE mgpu_cards gauge\nmgpu_cards 8\n"),
            HasSubstr("mgpu_filter_seconds_bucket{le=\"0.1\"} 1\n"),
            HasSubstr("mgpu_filter_seconds_bucket{le=\"1\"} 2\n"),
            HasSubstr("mgpu_filter_seconds_bucket{le=\"+Inf\"} 3\n"),
            HasSubstr("mgpu_filter_seconds_count 3\n"), HasSubstr("mgpu_filter_seconds_sum 7.55")));
}

TEST(Metrics, EqualNamesAndLabelsAreOneMetric) {
  Metrics metrics;
  Counter& a = metrics.counter("x_total", "X.", {{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(&a, &metrics.counter("x_total", "X.", {{"b", "2"}, {"a", "1"}}));
  EXPECT_NE(&a, &metrics.counter("x_total", "X.", {{"a", "1"}, {"b", "3"}}));
  EXPECT_NE(&a, &metrics.counter("x_total", "X."));
  EXPECT_EQ(&metrics.gauge("g", "G."), &metrics.gauge("g", "G."));
  EXPECT_EQ(&metrics.histogram("h", "H.", {1}), &metrics.histogram("h", "H.", {1}));
}

TEST(Metrics, ReferencesStayValidWhenMetricsAreAdded) {
  Metrics metrics;
  Counter& first = metrics.counter("x_total", "X.", {{"n", "first"}});
  for (int i = 0; i < 1000; ++i) metrics.counter("x_total", "X.", {{"n", std::to_string(i)}});
  first.Increment(5);
  EXPECT_THAT(metrics.text(), HasSubstr("x_total{n=\"first\"} 5\n"));
}

TEST(Metrics, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.gauge("g", "G.", {{"node", "a\"b\\c\nd"}}).Set(1);
  EXPECT_THAT(metrics.text(), HasSubstr("g{node=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(Metrics, RefreshRunsBeforeEachText) {
  Metrics metrics;
  Gauge& gauge = metrics.gauge("g", "G.");
  int calls = 0;
  metrics.on_collect([&] { gauge.Set(++calls); });
  metrics.on_collect([&] { metrics.gauge("made_late", "L.").Set(calls); });
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(metrics.text(), AllOf(HasSubstr("\ng 1\n"), HasSubstr("\nmade_late 1\n")));
  EXPECT_THAT(metrics.text(), AllOf(HasSubstr("\ng 2\n"), HasSubstr("\nmade_late 2\n")));
}

TEST(Metrics, CountFromManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.counter("x_total", "X.").Increment();
        metrics.histogram("h", "H.", {1, 2}).Observe(1.5);
        if (i % 100 == 0) metrics.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics.text(), AllOf(HasSubstr("\nx_total 2000\n"), HasSubstr("\nh_count 2000\n")));
}

TEST(Metrics, RejectInvalidNamesAndLabels) {
  Metrics metrics;
  for (const std::string name : {"", "9x", "a-b", "a b", "a.b"}) {
    EXPECT_THROW(metrics.gauge(name, ""), std::invalid_argument) << name;
    EXPECT_THROW(metrics.gauge("g", "", {{name, "v"}}), std::invalid_argument) << name;
  }
  EXPECT_THROW(metrics.gauge("g", "", {{"__x", "v"}}), std::invalid_argument);
  EXPECT_DEATH(metrics.gauge("g", "", {{"le", "v"}}), "reserved for histograms");
  EXPECT_DEATH(metrics.histogram("h", "", {1}, {{"le", "v"}}), "reserved for histograms");
  EXPECT_DEATH(metrics.counter("binds", ""), "ends in _total");
}

TEST(Metrics, OfOneNameAreOfOneKind) {
  Metrics metrics;
  metrics.gauge("x_total", "");
  EXPECT_THROW(metrics.counter("x_total", ""), std::invalid_argument);
}

TEST(Metrics, CountersNeverDecrease) {
  Metrics metrics;
  Counter& counter = metrics.counter("x_total", "");
  counter.Increment(3);
  counter.Increment(-1);
  EXPECT_THAT(metrics.text(), HasSubstr("\nx_total 3\n"));
  EXPECT_DEATH(metrics.histogram("h", "", {2, 1}), "ascending");
  EXPECT_DEATH(metrics.histogram("h", "", {1, 1}), "ascending");
}

TEST(LatencyBuckets, AscendFromFiftyMicrosecondsToTenSeconds) {
  const std::vector<double> buckets = latency_buckets_seconds();
  EXPECT_EQ(buckets.front(), 0.00005);
  EXPECT_EQ(buckets.back(), 10);
  EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end()));
}

MetricFamily used_bytes(const std::vector<std::pair<Labels, double>>& values) {
  MetricFamily family{"mgpu_used_bytes", "Used.", prometheus::MetricType::Gauge, {}};
  for (const auto& [labels, value] : values) family.metric.push_back(series(labels, value));
  return family;
}

TEST(Metrics, ReplacedFamiliesHaveExactlyTheSeriesOfTheLastCall) {
  Metrics metrics;
  metrics.replace({used_bytes({{{{"pod", "a"}}, 1}, {{{"pod", "b"}}, 2}})});
  EXPECT_THAT(metrics.text(), HasSubstr("# HELP mgpu_used_bytes Used.\n"
                                        "# TYPE mgpu_used_bytes gauge\n"
                                        "mgpu_used_bytes{pod=\"a\"} 1\n"
                                        "mgpu_used_bytes{pod=\"b\"} 2\n"));
  metrics.replace({used_bytes({{{{"pod", "b"}}, 3}})});
  EXPECT_THAT(metrics.text(),
              AllOf(HasSubstr("mgpu_used_bytes{pod=\"b\"} 3\n"), Not(HasSubstr("pod=\"a\""))));
  metrics.replace({used_bytes({})});
  EXPECT_EQ(metrics.text(), "");
}

TEST(Metrics, FamiliesThatAreNotReplacedStay) {
  Metrics metrics;
  metrics.gauge("mgpu_cards", "Cards.").Set(8);
  metrics.replace({used_bytes({{{}, 1}})});
  metrics.replace({{"mgpu_over_total", "Over.", prometheus::MetricType::Counter, {series({}, 2)}}});
  EXPECT_THAT(metrics.text(),
              AllOf(HasSubstr("mgpu_cards 8\n"), HasSubstr("mgpu_used_bytes 1\n"),
                    HasSubstr("# TYPE mgpu_over_total counter\nmgpu_over_total 2\n")));
}

TEST(Metrics, ReplaceIsAtomic) {
  Metrics metrics;
  const auto replace = [&](double value) {
    MetricFamily other = used_bytes({{{}, value}});
    other.name = "mgpu_other_bytes";
    metrics.replace({used_bytes({{{}, value}}), other});
  };
  replace(0);
  std::jthread writer([&](const std::stop_token& stop) {
    for (double value = 0; !stop.stop_requested(); ++value) replace(value);
  });
  const auto value_in = [](const std::string& text, const std::string& name) {
    return std::stod(text.substr(text.find("\n" + name + " ") + name.size() + 2));
  };
  for (int i = 0; i < 200; ++i) {
    const std::string text = metrics.text();
    ASSERT_EQ(value_in(text, "mgpu_used_bytes"), value_in(text, "mgpu_other_bytes"));
  }
}

TEST(Metrics, AHostileLabelStaysOneLabelOfOneLine) {
  Metrics metrics;
  metrics.replace({used_bytes({{{{"pod", "a\"} 1\nmgpu_used_bytes{pod=\"b\\"}}, 1}})});
  EXPECT_THAT(
      metrics.text(),
      HasSubstr("gauge\nmgpu_used_bytes{pod=\"a\\\"} 1\\nmgpu_used_bytes{pod=\\\"b\\\\\"} 1\n"));
}

TEST(Metrics, ALabelIsValidUtf8OfBoundedLength) {
  Metrics metrics;
  metrics.replace({used_bytes({{{{"model", "A\xFF\xE2\x82 \xE2\x82\xAC"}}, 1}})});
  EXPECT_THAT(metrics.text(),
              HasSubstr("{model=\"A\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xE2\x82\xAC\"}"));
  metrics.replace({used_bytes({{{{"model", std::string(100'000, 'x')}}, 1}})});
  EXPECT_THAT(metrics.text(),
              HasSubstr("{model=\"" + std::string(kLabelValueBytesMax, 'x') + "\"}"));
}

TEST(Metrics, ReplacedFamiliesHaveNamesOfTheirOwn) {
  Metrics metrics;
  metrics.gauge("mgpu_used_bytes", "Used.");
  metrics.replace({used_bytes({{{}, 1}})});
  EXPECT_DEATH(metrics.text(), "metric of another kind exists");
}

}  // namespace
}  // namespace mgpu
