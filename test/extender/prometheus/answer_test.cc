// Answers recorded from a real Prometheus (test/golden/prometheus-*/README.md), and others.
#include "extender/prometheus/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "extender/prometheus/limits.h"

namespace mgpu::promql {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

kube::Response answer(std::string body, int status = 200) {
  kube::Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

kube::Response recorded(const std::string& name, int status = 200) {
  const auto text =
      read_file(MGPU_SOURCE_DIR "/test/golden/prometheus-2.42.0/" + name, std::size_t{1} << 20);
  EXPECT_TRUE(text) << name;
  return answer(text ? *text : "", status);
}

std::string problem_of(const Result<Answer>& read) {
  return read ? "no error" : read.error().message;
}

TEST(PrometheusAnswer, ReadsAVectorWithHostileLabelsAndNumbersThatAreNone) {
  const auto read = vector_in(recorded("vector.json"));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(read->series, SizeIs(3));
  EXPECT_THAT(read->series[0].labels,
              ElementsAre(Pair("__name__", "hostile"), Pair("name", "a\"b\\c\n<b> \xE2\x80\xAE")));
  EXPECT_TRUE(std::isnan(read->series[0].samples.at(0).value));
  EXPECT_EQ(read->series[1].samples.at(0).value, HUGE_VAL);
  const Series& share = read->series[2];
  EXPECT_EQ(share.label("pod"), "p");
  EXPECT_EQ(share.label("node"), "");
  ASSERT_THAT(share.samples, SizeIs(1));
  EXPECT_EQ(share.samples[0].at, 1'767'225'900);
  EXPECT_EQ(share.samples[0].value, 0.3);
  EXPECT_THAT(read->warnings, IsEmpty());
}

TEST(PrometheusAnswer, ReadsAMatrix) {
  const auto read = matrix_in(recorded("matrix.json"));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(read->series, SizeIs(1));
  ASSERT_THAT(read->series[0].samples, SizeIs(3));
  EXPECT_EQ(read->series[0].samples[1].at, 1'767'225'750);
  EXPECT_DOUBLE_EQ(read->series[0].samples[1].value, 0.1);
}

TEST(PrometheusAnswer, ReadsAnEmptyVector) {
  const auto read = vector_in(recorded("empty.json"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->series, IsEmpty());
}

TEST(PrometheusAnswer, SaysThatAPartIsMissing) {
  const auto read = vector_in(answer(
      R"({"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}})"));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(read->warnings, SizeIs(1));
  EXPECT_THAT(read->warnings[0], HasSubstr("the answer is partial"));
  EXPECT_THAT(vector_in(answer(R"({"status":"success","isPartial":false,"data":{"resultType":)"
                               R"("vector","result":[]}})"))
                  ->warnings,
              IsEmpty());
}

TEST(PrometheusAnswer, KeepsSomeWarnings) {
  std::string list = R"("first")";
  for (std::size_t i = 0; i < kWarningsMax; ++i) list += R"(,"more")";
  const auto read = vector_in(answer(R"({"data":{"resultType":"vector","result":[]},"warnings":[)" +
                                     list + R"(],"status":"success"})"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->warnings, SizeIs(kWarningsMax));
  EXPECT_EQ(read->warnings.front(), "first");
}

TEST(PrometheusAnswer, SaysWhatPrometheusSays) {
  EXPECT_EQ(problem_of(vector_in(recorded("bad-expression.json", 400))),
            "Prometheus answers 400 bad_data: invalid parameter \\\"query\\\": 1:9: parse error: "
            "unclosed left parenthesis");
  EXPECT_THAT(problem_of(matrix_in(recorded("too-many-points.json", 400))),
              HasSubstr("bad_data: exceeded maximum resolution of 11,000 points"));
  EXPECT_THAT(problem_of(vector_in(recorded("many-to-many.json", 422))),
              HasSubstr("Prometheus answers 422 execution: found duplicate series"));
}

TEST(PrometheusAnswer, AMessageOfPrometheusIsOneShortSentence) {
  const std::string problem = problem_of(vector_in(answer(
      R"({"status":"error","errorType":"x\ny","error":")" + std::string(10'000, 'x') + R"("})",
      400)));
  EXPECT_EQ(problem.find('\n'), std::string::npos);
  EXPECT_LT(problem.size(), kMessageShown + 100);
}

TEST(PrometheusAnswer, SaysThatAnotherProgramAnswers) {
  EXPECT_EQ(problem_of(vector_in(recorded("not-found.txt", 404))),
            "the server at --prometheus-url answers 404 with \"404 page not found\", and no "
            "JSON of the HTTP API of Prometheus");
  EXPECT_THAT(problem_of(vector_in(answer("<!doctype html>", 200))),
              HasSubstr("answers 200 with \"<!doctype html>\""));
  EXPECT_THAT(problem_of(vector_in(answer("", 302))), HasSubstr("answers 302"));
  EXPECT_THAT(problem_of(vector_in(answer("Unauthorized", 401))),
              HasSubstr("answers 401 with \"Unauthorized\"; the token in the file "
                        "--prometheus-token-file"));
  EXPECT_THAT(problem_of(vector_in(answer("no org id\n", 401))),
              AllOf(HasSubstr("with \"no org id\"; "), HasSubstr("needs --prometheus-tenant")));
  EXPECT_THAT(problem_of(vector_in(answer(R"({"message":"no"})", 403))), HasSubstr("answers 403"));
}

TEST(PrometheusAnswer, SaysThatThereIsNone) {
  kube::Response response;
  response.failure = kube::TransportFailure{"connection refused"};
  EXPECT_EQ(problem_of(vector_in(response)), "Prometheus does not answer: connection refused");
  response.failure->too_large = true;
  EXPECT_EQ(problem_of(matrix_in(response)),
            "the answer of Prometheus has more than 20 MiB; query fewer series or less time");
  EXPECT_THAT(problem_of(vector_in(response, 1 << 20)), HasSubstr("more than 1 MiB"));
  EXPECT_THAT(problem_of(vector_in(answer(std::string((1 << 20) + 1, ' ')), 1 << 20)),
              HasSubstr("more than 1 MiB"));
}

TEST(PrometheusAnswer, RefusesAnotherKindOfResult) {
  EXPECT_EQ(problem_of(vector_in(recorded("matrix.json"))),
            "the answer of Prometheus must be a vector, is \"matrix\"");
  EXPECT_EQ(problem_of(matrix_in(recorded("scalar.json"))),
            "the answer of Prometheus must be a matrix, is \"scalar\"");
  EXPECT_EQ(problem_of(vector_in(answer("{}"))),
            "the answer of Prometheus must have the status success, has \"\"");
}

TEST(PrometheusAnswer, RefusesSeveralSamplesInAVector) {
  EXPECT_EQ(problem_of(vector_in(answer(R"({"status":"success","data":{"resultType":"vector",
                "result":[{"metric":{},"values":[[1,"1"],[2,"2"]]}]}})"))),
            "a series of a vector of Prometheus must have one sample, has several");
}

std::string vector_of(const std::string& series) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + series + "]}}";
}

TEST(PrometheusAnswer, RefusesSamplesThatCannotBeRead) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"metric":{},"value":[1,"x"]})", "a value must be a number, is \"x\""},
      {R"({"metric":{},"value":[1,""]})", "a value must be a number, is \"\""},
      {R"({"metric":{},"value":[1]})", "a sample must be a time and a value"},
      {R"({"metric":{},"value":[1,"1","2"]})", "a sample must be a time and a value"},
      {R"({"metric":{},"values":[]})", "histograms cannot be read"},
      {R"({"metric":{},"histogram":[1,{"count":"1"}]})", "histograms cannot be read"},
      {R"({"metric":{},"value":["1","1"]})", "value[0] must be a number, is string \"1\""},
      {R"({"metric":{},"value":[1,1]})", "value[1] must be a string, is number 1"},
      {R"({"metric":{"a":1},"value":[1,"1"]})", "metric.a must be a string, is number 1"},
      {R"({"metric":)", "not JSON"},
  };
  for (const auto& [series, expected] : cases) {
    EXPECT_THAT(problem_of(vector_in(answer(vector_of(series)))), HasSubstr(expected)) << series;
  }
}

TEST(PrometheusAnswer, HasAtMostSoManySeries) {
  std::string series = R"({"value":[1,"1"]})";
  std::string all = series;
  for (std::size_t i = 1; i < kSeriesMax; ++i) all += "," + series;
  const auto most = vector_in(answer(vector_of(all)));
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_THAT(most->series, SizeIs(kSeriesMax));
  EXPECT_THAT(problem_of(vector_in(answer(vector_of(all + "," + series)))),
              HasSubstr("has 100001 series"));
}

}  // namespace
}  // namespace mgpu::promql
