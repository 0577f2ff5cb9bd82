#include "extender/web/prometheus_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/web/limits.h"
#include "test/extender/web/scripted_prometheus.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

constexpr std::chrono::sys_seconds kNow{1'767'225'600s};

// A series with these values, a step apart, of which the last one is of kNow.
std::string series_text(const std::string& name, const std::vector<std::string>& values) {
  std::string points;
  auto at = kNow - kPrometheusStep * (static_cast<std::int64_t>(values.size()) - 1);
  for (const std::string& value : values) {
    points += (points.empty() ? "[" : ",[") + std::to_string(at.time_since_epoch().count()) +
              ",\"" + value + "\"]";
    at += kPrometheusStep;
  }
  return R"({"metric":{"__name__":")" + name + R"("},"values":[)" + points + "]}";
}

kube::Response response_of(const std::string& series) {
  kube::Response response;
  response.status = 200;
  response.body = test::matrix_text(series);
  return response;
}

std::string problem_of(const kube::Response& response) {
  const auto points = history_in(response, kNow);
  return points ? "no error" : points.error().message;
}

TEST(PrometheusHistory, AsksForTheMaximumOfTheReplicasInAsManyPointsAsAreShown) {
  const kube::Request request = history_request(kNow);
  EXPECT_THAT(request.target, HasSubstr("/api/v1/query_range?query=max%20by%20"));
  EXPECT_THAT(
      request.target,
      HasSubstr("&start=" + std::to_string((kNow - 1'439 * 60s).time_since_epoch().count())));
  EXPECT_THAT(request.target, HasSubstr("&end=1767225600&step=60&"));
  EXPECT_EQ(request.response_bytes_max, kPrometheusBytesMax);
  EXPECT_GT(request.timeout, Duration(0));
}

TEST(PrometheusHistory, ReadsAPointOfEachTime) {
  const auto points = history_in(
      response_of(series_text("mgpu_extender_gpu_allocation_ratio", {"0.25", "0.5"}) + "," +
                  series_text("mgpu_extender_memory_allocation_ratio", {"0.125", "0.75"}) + "," +
                  series_text("mgpu_extender_compute_cards", {"8", "4"}) + "," +
                  series_text("mgpu_extender_free_compute_on_used_cards", {"1", "3"}) + "," +
                  series_text("mgpu_extender_free_cards", {"7", "1"}) + "," +
                  series_text("mgpu_extender_partly_used_nodes", {"1", "2"}) + "," +
                  series_text("mgpu_extender_claims", {"3", "12"}) + "," +
                  series_text("mgpu_card_sm_utilization_ratio", {"0.125", "0.25"}) + "," +
                  series_text("mgpu_card_memory_used_bytes", {"1000", "2000"}) + "," +
                  series_text("mgpu_card_memory_total_bytes", {"4000", "4000"})),
      kNow);
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_EQ(points_json(*points),
            "[[1767225540000,25,12.5,12.5,7,1,3,12.5,25],"
            "[1767225600000,50,75,75,1,2,12,25,50]]");
}

TEST(PrometheusHistory, WhatAnOlderExtenderDoesNotExportIsNotKnown) {
  const auto points =
      history_in(response_of(series_text("mgpu_extender_gpu_allocation_ratio", {"0.5"})), kNow);
  ASSERT_TRUE(points);
  EXPECT_EQ(points_json(*points), "[[1767225600000,50,null,null,null,null,null,null,null]]");
}

TEST(PrometheusHistory, OtherSeriesTimesAndValuesAreIgnored) {
  const auto points =
      history_in(response_of(series_text("up", {"1"}) + "," +
                             series_text("mgpu_extender_free_cards", {"NaN", "+Inf", "5"}) + "," +
                             R"({"metric":{},"values":[[1,"1"],[9e300,"1"],[-9e300,"1"]]})"),
                 kNow);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_THAT(*points, SizeIs(3)) << "those of the last three minutes";
  EXPECT_EQ(points->at(0).cards_free, std::nullopt);
  EXPECT_EQ(points->at(1).cards_free, std::nullopt);
  EXPECT_THAT(points->back().cards_free, Optional(5.0));
}

TEST(PrometheusHistory, SaysThatThereIsNothing) {
  EXPECT_THAT(problem_of(response_of("")), HasSubstr("must scrape the extenders"));
  EXPECT_THAT(problem_of(response_of(R"({"metric":{},"values":[[1,"1"]]})")),
              HasSubstr("must scrape the extenders"));
}

TEST(PrometheusHistory, LimitsWhatItReads) {
  std::string points;
  for (int i = 0; i < 2'000; ++i) {
    points += (i == 0 ? "[" : ",[") + std::to_string(1'767'225'600 - i) + ",\"1\"]";
  }
  EXPECT_THAT(problem_of(response_of(R"({"metric":{},"values":[)" + points + "]}")),
              HasSubstr("more than 1440 times"));
  kube::Response large = response_of("");
  large.body += std::string(kPrometheusBytesMax, ' ');
  EXPECT_THAT(problem_of(large), HasSubstr("more than 4 MiB"));
}

TEST(PrometheusHistory, AnswersThatAreNoneAreOneSentence) {
  kube::Response response = response_of("");
  for (const char* body : {"", "<html>", "[", "{\"status\":\"success\"}", "\xff\xfe", "null",
                           R"({"status":"success","data":{"resultType":"vector","result":[]}})"}) {
    response.body = body;
    EXPECT_THAT(problem_of(response), AllOf(HasSubstr("Prometheus"), Not(HasSubstr("\n")))) << body;
  }
}

TEST(PrometheusHistory, ReadsIdlePods) {
  EXPECT_THAT(idle_request(kNow).target, HasSubstr("/api/v1/query?query=max%20by%20"));
  std::string series = R"({"metric":{"namespace":"a","pod":"b"},"value":[1,"0"]})";
  const auto idle = [](const std::string& text, int status = 200) {
    kube::Response response;
    response.status = status;
    response.body = test::vector_text(text);
    return idle_in(response);
  };
  EXPECT_THAT(idle(series), testing::ElementsAre(PodRef{"a", "b"}));
  EXPECT_THAT(idle(series, 500), IsEmpty()) << "it is not known";
  std::string many;
  for (std::size_t i = 0; i < kIdlePodsMax + 5; ++i) many += (i == 0 ? "" : ",") + series;
  EXPECT_THAT(idle(many), SizeIs(kIdlePodsMax));
}

// --- polls ---------------------------------------------------------------------------------------

class PrometheusPolls : public testing::Test {
 protected:
  std::string points() const { return points_json(history.points()); }

  test::ManualExecutor executor;
  test::ScriptedPrometheus prometheus{executor};
  PrometheusHistory history{prometheus, [] { return kNow.time_since_epoch().count() * 1'000; }};
};

TEST_F(PrometheusPolls, AskOnceInAnInterval) {
  history.poll(executor.now());
  history.poll(executor.now());
  EXPECT_THAT(prometheus.requests, SizeIs(1));
  prometheus.answer(test::matrix_text(series_text("mgpu_extender_claims", {"3"})));
  EXPECT_THAT(prometheus.requests, SizeIs(2)) << "then the idle pods";
  EXPECT_EQ(history.version(), 0U);
  prometheus.answer(test::vector_text(""));
  EXPECT_EQ(history.version(), 1U);
  history.poll(executor.now() + kPrometheusInterval - Duration(1));
  EXPECT_THAT(prometheus.requests, SizeIs(2));
  history.poll(executor.now() + kPrometheusInterval);
  EXPECT_THAT(prometheus.requests, SizeIs(3));
}

TEST_F(PrometheusPolls, NoQueryIsSentWhileOneIsOpen) {
  history.poll(executor.now());
  history.poll(executor.now() + 100 * kPrometheusInterval);
  EXPECT_THAT(prometheus.requests, SizeIs(1));
}

TEST_F(PrometheusPolls, AFailureLeavesNoPointsAndSaysWhy) {
  history.poll(executor.now());
  prometheus.answer(test::matrix_text(series_text("mgpu_extender_claims", {"3"})));
  prometheus.answer(test::vector_text(R"({"metric":{"namespace":"a","pod":"b"},"value":[1,"0"]})"));
  EXPECT_THAT(history.points(), SizeIs(1));
  EXPECT_THAT(history.idle(), SizeIs(1));
  EXPECT_EQ(history.problem(), "");
  history.poll(executor.now() + kPrometheusInterval);
  prometheus.fail("connection refused");
  EXPECT_THAT(history.points(), IsEmpty());
  EXPECT_THAT(history.idle(), IsEmpty());
  EXPECT_THAT(history.problem(), HasSubstr("connection refused"));
  EXPECT_EQ(history.version(), 2U);
}

TEST_F(PrometheusPolls, AnAnswerThatIsTooLargeIsAFailure) {
  history.poll(executor.now());
  prometheus.fail("the answer has more than 4194304 bytes", true);
  EXPECT_THAT(history.problem(), HasSubstr("more than 4 MiB"));
}

}  // namespace
}  // namespace mgpu::extender
