#include "extender/kubectl/waste/prometheus_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/utc_text.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/waste/limits.h"

namespace mgpu::kubectl {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::Each;
using testing::HasSubstr;
using testing::Optional;
using testing::SizeIs;

Time at(const char* text) {
  return *parse_time(text);
}

UseScope day_scope() {
  return use_scope(at("2026-01-02T00:00:07Z"), hours(24), "research");
}

std::vector<std::string> expressions_of(const UseScope& scope) {
  std::vector<std::string> expressions;
  for (const UseQuery& query : use_queries(scope)) expressions.push_back(query.expression);
  return expressions;
}

// --- what is asked -------------------------------------------------------------------------------

TEST(UseScope, IsInWholeSteps) {
  const UseScope scope = use_scope(at("2026-01-02T00:00:07Z"), minutes(10) + seconds(1), "");
  EXPECT_EQ(utc_text(scope.until), "2026-01-02T00:00:00Z");
  EXPECT_EQ(utc_text(scope.from), "2026-01-01T23:49:45Z");
}

TEST(UseScope, StepsOfALongTimeAreLonger) {
  EXPECT_EQ(use_scope(at("2026-01-02T00:00:00Z"), hours(24), "").step, kShortStep);
  EXPECT_EQ(use_scope(at("2026-01-02T00:00:00Z"), hours(25), "").step, kLongStep);
}

TEST(UseQueries, CountEachShareOnceAndEachStepOnce) {
  const std::string share = "max by (namespace, pod, container, uuid) ";
  EXPECT_THAT(expressions_of(day_scope()),
              Contains("sum_over_time((" + share +
                       "(mgpu_container_core_limit_ratio{namespace=\"research\"}))[21599s:15s])"));
}

TEST(UseQueries, FollowEachOtherWithoutAGap) {
  Time end = day_scope().from;
  int parts = 0;
  for (const UseQuery& query : use_queries(day_scope())) {
    if (query.expression.find("sum_over_time((max by (namespace, pod, container, uuid) "
                              "(mgpu_container_core_limit_ratio") != 0) {
      continue;
    }
    EXPECT_EQ(query.at - end, day_scope().step * kStepsOfQuery);
    end = query.at;
    ++parts;
  }
  EXPECT_EQ(end, day_scope().until);
  EXPECT_EQ(parts, 4);
}

TEST(UseQueries, OfAllNamespacesHaveNoSelector) {
  UseScope scope = day_scope();
  scope.name_space.clear();
  EXPECT_THAT(expressions_of(scope), Each(testing::Not(HasSubstr("{"))));
}

TEST(UseQueries, QuoteTheNamespace) {
  UseScope scope = day_scope();
  scope.name_space = "a\"} or up{x=\"";
  EXPECT_THAT(owners_query(scope), HasSubstr(R"({namespace="a\"} or up{x=\""}[86400s])"));
}

TEST(UseQueries, UseTheLabelsThatPrometheusHasRenamed) {
  UseScope scope = day_scope();
  scope.exported_labels = true;
  const std::string share = "max by (exported_namespace, exported_pod, exported_container, uuid) (";
  EXPECT_THAT(expressions_of(scope),
              Contains(share + "max_over_time(mgpu_container_memory_used_bytes{"
                               "exported_namespace=\"research\",exported_pod!=\"\"}[86400s]))"));
  EXPECT_THAT(owners_query(scope), HasSubstr("group by (exported_namespace, exported_pod, "));
}

TEST(UseQueries, CountEachSeriesOnceWhereSomeHaveRenamedLabels) {
  const auto scopes = scopes_with_exported(day_scope());
  ASSERT_THAT(scopes, SizeIs(2));
  EXPECT_THAT(owners_query(scopes[0]),
              HasSubstr("{exported_namespace=\"research\",exported_pod!=\"\"}"));
  EXPECT_THAT(owners_query(scopes[1]), HasSubstr("{namespace=\"research\",exported_pod=\"\"}"));
}

TEST(UseQueries, APercentileCountsMissingValuesAsZeroAndHasFewSteps) {
  const std::string values =
      "quantile_over_time(0.95, (max by (namespace, pod, container, uuid) "
      "(mgpu_container_sm_utilization_ratio{namespace=\"research\"}) or "
      "max by (namespace, pod, container, uuid) "
      "(mgpu_container_core_limit_ratio{namespace=\"research\"}) * 0)";
  EXPECT_EQ(percentile_query(day_scope(), 5'760).expression, values + "[86399s:15s])");
  EXPECT_EQ(percentile_query(day_scope(), 1'440).expression, values + "[86399s:60s])");
  EXPECT_EQ(percentile_query(day_scope(), 1'000).expression, values + "[86399s:90s])");
}

// --- what is answered ----------------------------------------------------------------------------

promql::Series series_of(const std::string& pod, double value, const std::string& prefix = "") {
  promql::Series series;
  series.labels = {{prefix + "namespace", "a"},
                   {prefix + "pod", pod},
                   {prefix + "container", "c"},
                   {"uuid", "GPU-0"}};
  series.samples = {{1'767'225'600, value}};
  return series;
}

UseQuery sum_query() {
  return {"", {}, [](SeriesOfShare& share, double value) { share.limit_sum += value; }};
}

TEST(AddUse, SumsThePartsOfAShare) {
  SeriesOfShares shares;
  add_use({{series_of("p", 2)}, {}}, day_scope(), sum_query(), shares);
  add_use({{series_of("p", 3), series_of("q", 1)}, {}}, day_scope(), sum_query(), shares);
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_DOUBLE_EQ(shares.begin()->second.limit_sum, 5);
}

TEST(AddUse, SkipsNumbersThatAreNoAmounts) {
  SeriesOfShares shares;
  for (const double value : {-1.0, std::nan(""), HUGE_VAL, 1e300}) {
    add_use({{series_of("p", value)}, {}}, day_scope(), sum_query(), shares);
  }
  EXPECT_THAT(shares, SizeIs(0));
}

TEST(AddUse, ReadsTheLabelsThatPrometheusHasRenamed) {
  UseScope scope = day_scope();
  scope.exported_labels = true;
  promql::Series series = series_of("p", 2, "exported_");
  series.labels["namespace"] = "mgpu-system";
  SeriesOfShares shares;
  add_use({{series}, {}}, scope, sum_query(), shares);
  EXPECT_EQ(shares.begin()->first, ShareName("a", "p", "c", "GPU-0"));
}

TEST(OwnersIn, AreThoseOfThePods) {
  promql::Series series = series_of("p", 1);
  series.labels["owner_kind"] = "Job";
  series.labels["owner"] = "nightly";
  const auto owners = owners_in({{series}, {}}, day_scope());
  EXPECT_EQ(owners.at({"a", "p"}), std::pair(std::string("Job"), std::string("nightly")));
}

// --- shares --------------------------------------------------------------------------------------

// 30 % of a card for the 240 steps of an hour, of which the half was used in the half of the time.
SeriesOfShare hour_of_series() {
  SeriesOfShare series;
  series.limit_sum = 0.3 * 240;
  series.limit_steps = 240;
  series.used_sum = 0.15 * 120;
  series.used_steps = 120;
  series.core = 0.3;
  series.memory = 4096.0 * 1024 * 1024;
  series.memory_peak = 1024.0 * 1024 * 1024;
  series.p95 = 0.15;
  return series;
}

MeasuredShare share_of_series(const SeriesOfShare& series) {
  const auto shares = shares_of({{ShareName("a", "p", "c", "GPU-0"), series}}, day_scope());
  EXPECT_THAT(shares, SizeIs(1));
  return shares.empty() ? MeasuredShare() : shares.front();
}

TEST(SharesOf, IntegrateInSteps) {
  const MeasuredShare share = share_of_series(hour_of_series());
  EXPECT_DOUBLE_EQ(share.core, 30);
  EXPECT_DOUBLE_EQ(share.memory, 4'096);
  EXPECT_DOUBLE_EQ(share.granted_hours, 0.3);
  EXPECT_THAT(share.used_hours, Optional(DoubleNear(0.075, 1e-9)));
  EXPECT_THAT(share.memory_peak, Optional(DoubleEq(1'024)));
}

TEST(SharesOf, MissingValuesAreIdleWhereTheDriverOfTheCardMeasures) {
  const MeasuredShare share = share_of_series(hour_of_series());
  EXPECT_DOUBLE_EQ(share.measured_hours, 1);
  EXPECT_EQ(share.samples, 240);
  EXPECT_THAT(share.core_p95, Optional(DoubleEq(15)));

  SeriesOfShare idle = hour_of_series();
  idle.used_sum = idle.used_steps = 0;
  const auto shares = shares_of({{ShareName("a", "idle", "c", "GPU-0"), idle},
                                 {ShareName("a", "busy", "c", "GPU-0"), hour_of_series()}},
                                day_scope());
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_EQ(shares[1].pod.name, "idle");
  EXPECT_THAT(shares[1].used_hours, Optional(DoubleEq(0)));
}

TEST(SharesOf, MissingValuesAreUnknownWhereNothingShowsThatTheDriverMeasures) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.used_steps = 0;
  const MeasuredShare share = share_of_series(series);
  EXPECT_EQ(share.used_hours, std::nullopt);
  EXPECT_EQ(share.core_p95, std::nullopt);
  EXPECT_EQ(share.samples, 0);
}

TEST(SharesOf, AShareWithoutProcessesIsUnused) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.used_steps = 0;
  series.idle_steps = 240;
  series.p95 = 0;
  const MeasuredShare share = share_of_series(series);
  EXPECT_THAT(share.used_hours, Optional(DoubleEq(0)));
  EXPECT_THAT(share.core_p95, Optional(DoubleEq(0)));
  EXPECT_DOUBLE_EQ(share.measured_hours, 1);
}

TEST(SharesOf, APercentileOfAPartOfTheTimeIsNotKnown) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.used_steps = 0;
  series.idle_steps = 100;
  const MeasuredShare share = share_of_series(series);
  EXPECT_EQ(share.samples, 100);
  EXPECT_EQ(share.core_p95, std::nullopt);
}

TEST(SharesOf, CountersOfThePluginAreMoreExact) {
  SeriesOfShare series = hour_of_series();
  series.granted_counter = 0.3 * 3'590;
  series.used_counter = 0.27 * 3'590;
  const MeasuredShare share = share_of_series(series);
  EXPECT_NEAR(share.granted_hours, 0.3 * 3'590 / 3'600, 1e-9);
  EXPECT_THAT(share.used_hours, Optional(DoubleNear(0.27 * 3'590 / 3'600, 1e-9)));
  EXPECT_THAT(share.core_p95, Optional(DoubleNear(27, 1e-9))) << "at least the mean";
}

TEST(SharesOf, CountersOfAPartOfTheTimeAreNotUsed) {
  SeriesOfShare series = hour_of_series();
  series.granted_counter = 0.3 * 1'800;
  series.used_counter = 0.3 * 1'800;
  const MeasuredShare share = share_of_series(series);
  EXPECT_DOUBLE_EQ(share.granted_hours, 0.3);
  EXPECT_THAT(share.used_hours, Optional(DoubleNear(0.075, 1e-9)));
}

TEST(SharesOf, LeaveOutSeriesOfNoShare) {
  SeriesOfShare series;
  series.memory_peak = 1;
  EXPECT_THAT(shares_of({{ShareName("a", "p", "c", "GPU-0"), series}}, day_scope()), SizeIs(0));
}

}  // namespace
}  // namespace mgpu::kubectl
