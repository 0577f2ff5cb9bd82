#include "extender/kubectl/waste/prometheus_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rfc3339.h"
#include "common/base/utc_text.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/waste/limits.h"

namespace mgpu::kubectl {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Optional;
using testing::SizeIs;

Time at(const char* text) {
  return *read_rfc3339(text);
}

UseScope day_scope() {
  return use_scope(at("2026-01-02T00:00:07Z"), hours(24), "research", "job=\"x\"");
}

std::vector<std::string> expressions_of(const UseScope& scope) {
  std::vector<std::string> expressions;
  for (const UseQuery& query : use_queries(scope)) expressions.push_back(query.expression);
  return expressions;
}

// --- what is asked -------------------------------------------------------------------------------

TEST(UseScope, IsInWholeSteps) {
  const UseScope scope = use_scope(at("2026-01-02T00:00:07Z"), minutes(10) + seconds(1), "", "");
  EXPECT_EQ(utc_text(scope.until), "2026-01-02T00:00:00Z");
  EXPECT_EQ(utc_text(scope.from), "2026-01-01T23:49:45Z");
}

TEST(UseScope, StepsOfALongTimeAreLonger) {
  EXPECT_EQ(use_scope(at("2026-01-02T00:00:00Z"), hours(24), "", "").step, kShortStep);
  EXPECT_EQ(use_scope(at("2026-01-02T00:00:00Z"), hours(25), "", "").step, kLongStep);
}

// A metric of the shares of the namespace, of the jobs that match. `begin` and `end` are around the
// selectors.
std::string shares_with(const std::string& metric, const std::string& begin = "",
                        const std::string& end = "") {
  const auto selected = [&](const std::string& labels) {
    return begin + metric + "{job=\"x\"," + labels + "}" + end;
  };
  return "max by (namespace, pod, container, uuid) (" +
         selected(R"(namespace="research",exported_pod="")") +
         " or label_replace(label_replace(label_replace("
         "max by (exported_namespace, exported_pod, exported_container, uuid) (" +
         selected(R"(exported_namespace="research",exported_pod!="")") +
         R"re(), "namespace", "$1", "exported_namespace", "(.*)"))re"
         R"re(, "pod", "$1", "exported_pod", "(.*)"))re"
         R"re(, "container", "$1", "exported_container", "(.*)")))re";
}

const char* const kMeasuredCards =
    "(max by (uuid) (mgpu_container_sm_utilization_ratio{job=\"x\"}) or "
    "max by (uuid) (mgpu_card_sm_utilization_ratio{job=\"x\"}) == 0)";

TEST(UseQueries, CountEachShareOnceAndEachStepOnceWhateverItsLabelsAre) {
  EXPECT_THAT(expressions_of(day_scope()),
              Contains("sum_over_time((" + shares_with("mgpu_container_core_limit_ratio") +
                       ")[21599s:15s])"));
  EXPECT_THAT(expressions_of(day_scope()), Contains(shares_with("mgpu_container_memory_used_bytes",
                                                                "max_over_time(", "[86400s])")));
}

TEST(UseQueries, CountTheStepsAtWhichTheUseIsKnown) {
  EXPECT_THAT(expressions_of(day_scope()),
              Contains("count_over_time((" + shares_with("mgpu_container_core_limit_ratio") +
                       " and on (uuid) " + kMeasuredCards + ")[21599s:15s])"));
  EXPECT_THAT(expressions_of(day_scope()),
              Contains("count_over_time((" + shares_with("mgpu_container_processes") +
                       " == 0 unless on (uuid) " + kMeasuredCards + ")[21599s:15s])"));
}

TEST(UseQueries, FollowEachOtherWithoutAGap) {
  Time end = day_scope().from;
  int parts = 0;
  for (const UseQuery& query : use_queries(day_scope())) {
    const std::string sum = "sum_over_time((" + shares_with("mgpu_container_core_limit_ratio");
    if (!query.expression.starts_with(sum)) continue;
    EXPECT_EQ(query.at - end, day_scope().step * kStepsOfQuery);
    end = query.at;
    ++parts;
  }
  EXPECT_EQ(end, day_scope().until);
  EXPECT_EQ(parts, 4);
}

TEST(UseQueries, AskOnlyForSeriesThatMatch) {
  UseScope scope = day_scope();
  std::vector<std::string> expressions = expressions_of(scope);
  expressions.push_back(percentile_query(scope, 1'440).expression);
  expressions.push_back(owners_query(scope));
  for (const std::string& expression : expressions) {
    std::size_t metrics = 0;
    std::size_t matched = 0;
    for (std::size_t at = 0; (at = expression.find("mgpu_", at)) != expression.npos; ++at) {
      ++metrics;
      if (expression.find("{job=\"x\"", at) == expression.find_first_of("{ ,)[", at)) ++matched;
    }
    EXPECT_GT(metrics, 0);
    EXPECT_EQ(matched, metrics) << expression;
  }
}

TEST(UseQueries, OfAllNamespacesAndJobsSelectOnlyTheKindOfLabels) {
  const UseScope scope = use_scope(at("2026-01-02T00:00:00Z"), hours(24), "", "");
  EXPECT_THAT(owners_query(scope),
              AllOf(HasSubstr("(mgpu_container_owner_info{exported_pod=\"\"}[86400s]) or "),
                    HasSubstr("(mgpu_container_owner_info{exported_pod!=\"\"}[86400s])"),
                    HasSubstr("max by (namespace, pod, owner_kind, owner) (")));
  EXPECT_THAT(expressions_of(scope),
              Contains(HasSubstr("max by (uuid) (mgpu_container_sm_utilization_ratio)")));
}

TEST(UseQueries, QuoteTheNamespace) {
  UseScope scope = day_scope();
  scope.name_space = "a\"} or up{x=\"";
  EXPECT_THAT(owners_query(scope), HasSubstr(R"(,namespace="a\"} or up{x=\"",exported_pod=)"));
}

TEST(UseQueries, APercentileCountsWhatIsNotKnownAsTheWholeShareAndHasFewSteps) {
  const std::string limit = shares_with("mgpu_container_core_limit_ratio");
  const std::string values =
      "quantile_over_time(0.95, (" + shares_with("mgpu_container_sm_utilization_ratio") + " or (" +
      limit + " and on (uuid) " + kMeasuredCards + " or " +
      shares_with("mgpu_container_processes") + " == 0) * 0 or " + limit + ")";
  EXPECT_EQ(percentile_query(day_scope(), 5'760).expression, values + "[86399s:15s])");
  EXPECT_EQ(percentile_query(day_scope(), 1'440).expression, values + "[86399s:60s])");
  EXPECT_EQ(percentile_query(day_scope(), 1'000).expression, values + "[86399s:90s])");
}

TEST(UseQueries, FindSharesOfOtherJobs) {
  EXPECT_EQ(unmatched_query(day_scope()),
            "count(max_over_time(mgpu_container_core_limit_ratio[86400s])) unless on () "
            "count(max_over_time(mgpu_container_core_limit_ratio{job=\"x\"}[86400s]))");
}

TEST(CheckMatcher, AcceptsLabelMatchersWithoutBraces) {
  for (const char* text : {"", kMatcherDefault, R"(job="a",cluster!~"b\"}|c")"}) {
    EXPECT_TRUE(check_matcher(text)) << text;
  }
  for (const char* text : {"{job=\"a\"}", "job=\"a\"} or up{a=\"b\"", "job=\"a", "job=\"a\\\"",
                           "job=\"a\"[1d]", "#"}) {
    const auto checked = check_matcher(text);
    ASSERT_FALSE(checked) << text;
    EXPECT_THAT(checked.error().message,
                HasSubstr("--prometheus-matcher must be label matchers such as job=~\".*mgpu.*\""));
  }
}

// --- what is answered ----------------------------------------------------------------------------

promql::Series series_of(const std::string& pod, double value) {
  promql::Series series;
  series.labels = {{"namespace", "a"}, {"pod", pod}, {"container", "c"}, {"uuid", "GPU-0"}};
  series.samples = {{1'767'225'600, value}};
  return series;
}

UseQuery sum_query() {
  return {"", {}, [](SeriesOfShare& share, double value) { share.limit_sum += value; }};
}

TEST(AddUse, SumsThePartsOfAShare) {
  SeriesOfShares shares;
  add_use({{series_of("p", 2)}, {}}, sum_query(), shares);
  add_use({{series_of("p", 3), series_of("q", 1)}, {}}, sum_query(), shares);
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_DOUBLE_EQ(shares.begin()->second.limit_sum, 5);
}

TEST(AddUse, SkipsNumbersThatAreNoAmounts) {
  SeriesOfShares shares;
  for (const double value : {-1.0, std::nan(""), HUGE_VAL, 1e300}) {
    add_use({{series_of("p", value)}, {}}, sum_query(), shares);
  }
  EXPECT_THAT(shares, SizeIs(0));
}

TEST(OwnersIn, AreThoseOfThePods) {
  promql::Series series = series_of("p", 1);
  series.labels["owner_kind"] = "Job";
  series.labels["owner"] = "nightly";
  const auto owners = owners_in({{series}, {}});
  EXPECT_EQ(owners.at({"a", "p"}), std::pair(std::string("Job"), std::string("nightly")));
}

// --- shares --------------------------------------------------------------------------------------

// 30 % of a card for the 240 steps of an hour, of which the half was used in the half of the time.
SeriesOfShare hour_of_series() {
  SeriesOfShare series;
  series.limit_sum = 0.3 * 240;
  series.limit_steps = 240;
  series.used_sum = 0.15 * 120;
  series.measured_steps = 240;
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

TEST(SharesOf, StepsWithoutAValueAreIdleWhereTheCardIsMeasured) {
  SeriesOfShare idle = hour_of_series();
  idle.used_sum = 0;
  idle.p95 = 0;
  const MeasuredShare share = share_of_series(idle);
  EXPECT_DOUBLE_EQ(share.measured_hours, 1);
  EXPECT_EQ(share.samples, 240);
  EXPECT_THAT(share.used_hours, Optional(DoubleEq(0)));
  EXPECT_THAT(share.core_p95, Optional(DoubleEq(0)));
}

TEST(SharesOf, OneValueOfACardDoesNotMeasureTheOtherSteps) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = 0.1;
  series.measured_steps = 1;
  const SeriesOfShare busy = hour_of_series();
  const auto shares = shares_of(
      {{ShareName("a", "busy", "c", "GPU-0"), busy}, {ShareName("a", "p", "c", "GPU-0"), series}},
      day_scope());
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_EQ(shares[1].samples, 1);
  EXPECT_DOUBLE_EQ(shares[1].measured_hours, 1.0 / 240);
  EXPECT_EQ(shares[1].core_p95, std::nullopt);
}

TEST(SharesOf, WithoutAMeasuredStepTheUseIsNotKnown) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.measured_steps = 0;
  const MeasuredShare share = share_of_series(series);
  EXPECT_EQ(share.used_hours, std::nullopt);
  EXPECT_EQ(share.core_p95, std::nullopt);
  EXPECT_EQ(share.samples, 0);
}

TEST(SharesOf, AShareWithoutProcessesIsUnused) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.measured_steps = 0;
  series.idle_steps = 240;
  series.p95 = 0;
  const MeasuredShare share = share_of_series(series);
  EXPECT_THAT(share.used_hours, Optional(DoubleEq(0)));
  EXPECT_THAT(share.core_p95, Optional(DoubleEq(0)));
  EXPECT_DOUBLE_EQ(share.measured_hours, 1);
}

TEST(SharesOf, APercentileOfAPartOfTheTimeIsNotKnown) {
  SeriesOfShare series = hour_of_series();
  series.used_sum = series.measured_steps = 0;
  series.idle_steps = 100;
  const MeasuredShare share = share_of_series(series);
  EXPECT_EQ(share.samples, 100);
  EXPECT_EQ(share.core_p95, std::nullopt);
  series.idle_steps = 220;
  EXPECT_THAT(share_of_series(series).core_p95, Optional(DoubleEq(15))) << "some scrapes failed";
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

TEST(SharesOf, CountersOfMoreThanTheTimeAreNotUsed) {
  SeriesOfShare series = hour_of_series();
  series.granted_counter = 0.3 * 7'200;
  series.used_counter = 0.3 * 7'200;
  const MeasuredShare share = share_of_series(series);
  EXPECT_DOUBLE_EQ(share.granted_hours, 0.3);
  EXPECT_THAT(share.used_hours, Optional(DoubleNear(0.075, 1e-9)));
}

TEST(SharesOf, ACounterOfTheUseIsAtMostTheWholeCard) {
  SeriesOfShare series = hour_of_series();
  series.granted_counter = 0.3 * 3'600;
  series.used_counter = 1e12;
  const MeasuredShare share = share_of_series(series);
  EXPECT_THAT(share.used_hours, Optional(DoubleNear(1, 1e-9)));
  EXPECT_THAT(share.core_p95, Optional(DoubleNear(100, 1e-9)));
}

TEST(SharesOf, ACounterWithoutAShareIsNone) {
  SeriesOfShare series;
  series.granted_counter = series.used_counter = 3'600;
  EXPECT_THAT(shares_of({{ShareName("a", "p", "c", "GPU-0"), series}}, day_scope()), SizeIs(0));
}

TEST(SharesOf, LeaveOutSeriesOfNoShare) {
  SeriesOfShare series;
  series.memory_peak = 1;
  EXPECT_THAT(shares_of({{ShareName("a", "p", "c", "GPU-0"), series}}, day_scope()), SizeIs(0));
}

}  // namespace
}  // namespace mgpu::kubectl
