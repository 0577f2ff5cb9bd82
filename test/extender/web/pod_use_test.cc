#include "extender/web/pod_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "extender/web/limits.h"
#include "test/extender/web/scripted_prometheus.h"

namespace mgpu::extender {
namespace {

using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::SizeIs;
using UseJson = nlohmann::json;

const std::string kQuery = "namespace=ml&pod=train";

std::string share_series(
    const std::string& metric, const std::string& value,
    const std::string& labels = R"("container":"app","index":"1","uuid":"G")") {
  return R"({"metric":{"__name__":"mgpu_container_)" + metric + "\"," + labels +
         R"(},"value":[1767225600,")" + value + "\"]}";
}

class WebPodUse : public testing::Test {
 protected:
  PodUse& use(bool with_prometheus = true) {
    if (!use_) {
      use_.emplace(with_prometheus ? &prometheus : nullptr, executor,
                   [] { return std::int64_t{1'767'225'600'500}; });
    }
    return *use_;
  }
  void ask(const std::string& query = kQuery) {
    use().answer(query, [this](const http::Response& response) { answers.push_back(response); });
  }
  // The answer of Prometheus as the page gets it.
  UseJson shown(const std::string& series) {
    ask();
    prometheus.answer(test::vector_text(series));
    EXPECT_EQ(answers.back().status, 200) << answers.back().body;
    return UseJson::parse(answers.back().body);
  }

  test::ManualExecutor executor;
  test::ScriptedPrometheus prometheus{executor};
  std::vector<http::Response> answers;

 private:
  std::optional<PodUse> use_;
};

TEST_F(WebPodUse, IsThatOfEachContainerAndCard) {
  const UseJson body =
      shown(share_series("sm_utilization_ratio", "0.125") + "," +
            share_series("core_limit_ratio", "0.3") + "," +
            share_series("memory_used_bytes", "1073741824") + "," +
            share_series("memory_limit_bytes", "2147483648") + "," +
            share_series("core_limit_ratio", "1", R"("container":"b","index":"0","uuid":"H")"));
  EXPECT_EQ(body, UseJson::parse(R"({"at": 1767225600500, "shares": [
      {"container": "app", "card": 1, "uuid": "G", "core": {"granted": 30, "used": 12.5},
       "memoryMiB": {"granted": 2048, "used": 1024}},
      {"container": "b", "card": 0, "uuid": "H", "core": {"granted": 100}, "memoryMiB": {}}]})"));
}

TEST_F(WebPodUse, AsksForThisPodOnly) {
  ask();
  const std::string target = prometheus.requests.at(0).target;
  EXPECT_THAT(target, HasSubstr("/api/v1/query?query="));
  EXPECT_THAT(target, HasSubstr("namespace%3D%22ml%22%2Cpod%3D%22train%22"));
  EXPECT_EQ(prometheus.requests[0].response_bytes_max, kPrometheusBytesMax);
}

TEST_F(WebPodUse, RefusesNamesThatAreNone) {
  for (const char* query :
       {"", "namespace=ml", "pod=train", "namespace=&pod=", "namespace=ML&pod=p",
        "namespace=a.b&pod=p", "namespace=-a&pod=p", "namespace=a&pod=p%22%7D%20or%20up",
        "namespace=a&pod=p%0a", "namespace=a&pod=%e2%80%ae"}) {
    ask(query);
    EXPECT_EQ(answers.back().status, 400) << query;
    EXPECT_THAT(answers.back().body, HasSubstr("query parameter")) << query;
  }
  ask("namespace=" + std::string(64, 'a') + "&pod=p");
  EXPECT_EQ(answers.back().status, 400);
  ask("namespace=a&pod=" + std::string(254, 'p'));
  EXPECT_EQ(answers.back().status, 400);
  EXPECT_THAT(prometheus.requests, SizeIs(0));
}

TEST_F(WebPodUse, AcceptsTheLongestNames) {
  ask("namespace=" + std::string(63, 'a') + "&pod=" + std::string(250, 'p') + ".1x");
  EXPECT_THAT(prometheus.requests, SizeIs(1));
}

TEST_F(WebPodUse, WithoutPrometheusItSaysHowToSeeIt) {
  use(false);
  ask();
  const auto body = UseJson::parse(answers.at(0).body);
  EXPECT_THAT(body["shares"], SizeIs(0));
  EXPECT_THAT(body["message"].get<std::string>(), HasSubstr("kubectl mgpu top -n ml"));
}

TEST_F(WebPodUse, SaysThatPrometheusHasNothing) {
  const UseJson body = shown("");
  EXPECT_THAT(body["shares"], SizeIs(0));
  EXPECT_THAT(body["message"].get<std::string>(), HasSubstr("Prometheus has no use of this pod"));
}

TEST_F(WebPodUse, SaysWhyThereIsNoAnswer) {
  ask();
  prometheus.fail("connection refused");
  EXPECT_EQ(answers.at(0).status, 503);
  EXPECT_THAT(answers.at(0).body, HasSubstr("connection refused"));
  ask();
  prometheus.answer("<html>", 502);
  EXPECT_EQ(answers.at(1).status, 503);
}

TEST_F(WebPodUse, SeriesThatItDoesNotKnowAreLeftOut) {
  const UseJson body = shown(
      share_series("core_limit_ratio", "0.3", R"("container":"app","index":"1; drop","uuid":"G")") +
      "," + share_series("core_limit_ratio", "0.3", R"("container":"app")") + "," +
      share_series("sm_utilization_ratio", "NaN") + "," + share_series("other", "1"));
  EXPECT_EQ(body["shares"], UseJson::parse(R"([{"container": "app", "card": 1, "uuid": "G",
                                                "core": {}, "memoryMiB": {}}])"));
}

TEST_F(WebPodUse, HostileTextStaysText) {
  const UseJson body = shown(share_series(
      "core_limit_ratio", "1",
      R"("container":"<b>\"\u202e\n","index":"1","uuid":")" + std::string(5'000, 'x') + "\""));
  EXPECT_EQ(body["shares"][0]["container"], "<b>\"\xe2\x80\xae\n");
  EXPECT_EQ(body["shares"][0]["uuid"].get<std::string>().size(), kPrometheusLabelBytesMax);
}

TEST_F(WebPodUse, HasALimitedNumberOfShares) {
  std::string series;
  for (std::size_t i = 0; i < kPodUseSharesMax + 10; ++i) {
    series += (i == 0 ? "" : ",") +
              share_series("core_limit_ratio", "1",
                           R"("container":"a","index":")" + std::to_string(i) + "\"");
  }
  EXPECT_THAT(shown(series)["shares"], SizeIs(kPodUseSharesMax));
}

TEST_F(WebPodUse, IsKeptForAMoment) {
  shown(share_series("core_limit_ratio", "1"));
  ask();
  EXPECT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].body, answers[1].body);
  EXPECT_THAT(prometheus.requests, SizeIs(1));
  executor.advance(kPodUseLife);
  ask();
  EXPECT_THAT(prometheus.requests, SizeIs(2));
}

TEST_F(WebPodUse, RequestsAboutOnePodWaitForOneQuery) {
  for (std::size_t i = 0; i < kPodUseWaitingMax; ++i) ask();
  EXPECT_THAT(prometheus.requests, SizeIs(1));
  EXPECT_THAT(answers, SizeIs(0));
  ask();
  EXPECT_EQ(answers.at(0).status, 429);
  prometheus.answer(test::vector_text(share_series("core_limit_ratio", "1")));
  answers.erase(answers.begin());
  EXPECT_THAT(answers, SizeIs(kPodUseWaitingMax));
  EXPECT_THAT(answers, Each(Field(&http::Response::status, 200)));
}

TEST_F(WebPodUse, OnlyAFewQueriesAreOpen) {
  for (std::size_t i = 0; i <= kPodUseQueriesMax; ++i) {
    ask("namespace=ml&pod=p" + std::to_string(i));
  }
  EXPECT_EQ(prometheus.open(), kPodUseQueriesMax);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].status, 429);
  prometheus.answer(test::vector_text(""));
  ask("namespace=ml&pod=p" + std::to_string(kPodUseQueriesMax));
  EXPECT_EQ(prometheus.open(), kPodUseQueriesMax);
}

}  // namespace
}  // namespace mgpu::extender
