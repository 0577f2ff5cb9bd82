#include "extender/prometheus/query.h"

#include <gtest/gtest.h>

#include "extender/prometheus/limits.h"

namespace mgpu::promql {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;

constexpr sys_seconds kNewYear{seconds(1'767'225'600)};

TEST(PrometheusQuery, AsksForAnInstantWithTheExpressionEncoded) {
  const kube::Request request =
      instant_query(R"(sum by (pod) (x{a="b&c"}) / 2 + 1)", kNewYear, Duration(5'000));
  EXPECT_EQ(request.target,
            "/api/v1/query?query=sum%20by%20%28pod%29%20%28x%7Ba%3D%22b%26c%22%7D%29%20%2F%202%20"
            "%2B%201&time=1767225600&timeout=5000ms");
  EXPECT_EQ(request.method, kube::Method::kGet);
  EXPECT_EQ(request.body, "");
}

TEST(PrometheusQuery, WaitsForTheSentenceOfAPrometheusThatGivesUp) {
  EXPECT_GT(instant_query("up", kNewYear, Duration(5'000)).timeout, Duration(5'000));
}

TEST(PrometheusQuery, AsksForARangeInSteps) {
  const kube::Request request =
      range_query("up", kNewYear, kNewYear + std::chrono::hours(24), seconds(60), Duration(10'000));
  EXPECT_EQ(request.target,
            "/api/v1/query_range?query=up&start=1767225600&end=1767312000&step=60&timeout=10000ms");
}

TEST(PrometheusQuery, RangesHaveAsManyPointsAsPrometheusPermits) {
  const seconds most(kPointsMax - 1);
  EXPECT_NE(range_query("up", kNewYear, kNewYear + most, seconds(1), Duration(1)).target, "");
  EXPECT_DEATH(
      (void)range_query("up", kNewYear, kNewYear + seconds(kPointsMax), seconds(1), Duration(1)),
      "");
  EXPECT_DEATH((void)range_query("up", kNewYear, kNewYear, seconds(0), Duration(1)), "");
}

TEST(PrometheusQuery, QuotesTextOfLabelsInFull) {
  EXPECT_EQ(quoted("web-1"), R"("web-1")");
  EXPECT_EQ(quoted(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("a\nb\x7f"), R"("a\x0ab\x7f")");
  EXPECT_EQ(quoted("\xC3\xA9\xff"), "\"\xC3\xA9\\xff\"");
}

}  // namespace
}  // namespace mgpu::promql
