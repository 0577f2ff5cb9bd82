#include "common/program/token_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/base/log.h"
#include "common/program/limits.h"
#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu {
namespace {

using testing::HasSubstr;
using testing::Not;

class TokenAccessTest : public testing::Test {
 protected:
  TokenAccessTest() {
    api_.set_token("good",
                   {.name = "prometheus", .uid = {}, .groups = {"system:masters"}, .extra = {}});
    api_.set_token("other", {.name = "tenant", .uid = {}, .groups = {"tenants"}, .extra = {}});
    api_.set_faults([this](const kube::Request& request) {
      requests_.push_back(request.target);
      return fault_;
    });
  }

  struct Answer {
    int status = 0;  // 200: allowed; 0: no answer
    http::Response refusal;
  };
  Answer ask(const std::string& authorization, const std::string& path = "/metrics",
             const std::string& method = "GET") {
    auto answer = std::make_shared<Answer>();
    access_->check({.method = method, .path = path, .authorization = authorization},
                   [answer](const Access& access) {
                     answer->status = access.allowed ? 200 : access.refusal.status;
                     answer->refusal = access.refusal;
                   });
    executor_.run_ready();
    return *answer;
  }
  // Begins a check that the API server does not answer for a minute.
  void begin(const std::string& authorization) {
    access_->check({.method = "GET", .path = "/metrics", .authorization = authorization},
                   [this](const Access& access) {
                     ended_.push_back(access.allowed ? 200 : access.refusal.status);
                   });
  }
  void delay_answers() {
    fault_ = test::Fault{.kind = test::Fault::Kind::kDelay, .delay = kAccessCheckTimeout / 2};
  }

  test::ManualExecutor executor_;
  test::FaultyApiServer api_{executor_, {}};
  std::optional<test::Fault> fault_;
  std::vector<std::string> requests_;
  std::vector<int> ended_;
  std::optional<TokenAccess> access_{std::in_place, api_};
};

TEST_F(TokenAccessTest, AllowsAUserWithTheRight) {
  EXPECT_EQ(ask("Bearer good").status, 200);
  EXPECT_EQ(ask("bearer good", "/inspect/explain", "POST").status, 200);
}

TEST_F(TokenAccessTest, RefusesAUserWithoutTheRight) {
  const Answer answer = ask("Bearer other");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.refusal.body,
            "{\"error\": \"user \\\"tenant\\\" may not get path \\\"/metrics\\\"\"}\n");
}

TEST_F(TokenAccessTest, RefusesAnInvalidToken) {
  const Answer answer = ask("Bearer secret-token");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.refusal.body, "{\"error\": \"the bearer token is not valid\"}\n");
  EXPECT_EQ(answer.refusal.headers.at(0),
            (std::pair<std::string, std::string>("WWW-Authenticate", "Bearer")));
}

TEST_F(TokenAccessTest, RefusesARequestWithoutATokenWithoutAskingTheApiServer) {
  const std::string too_long = "Bearer " + std::string(kBearerTokenBytesMax + 1, 'x');
  for (const std::string& header :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("Basic Z29vZA=="),
        std::string("Bearer a b"), std::string("Bearer a\x01"), std::string("good"), too_long}) {
    const Answer answer = ask(header);
    EXPECT_EQ(answer.status, 401) << header;
    EXPECT_THAT(answer.refusal.body, HasSubstr("needs a bearer token")) << header;
  }
  EXPECT_TRUE(requests_.empty());
}

TEST_F(TokenAccessTest, KeepsAResultForSomeSeconds) {
  for (const char* token : {"Bearer good", "Bearer other", "Bearer none"}) {
    const int status = ask(token).status;
    const std::size_t before = requests_.size();
    executor_.advance(kAccessKept - Duration(1));
    EXPECT_EQ(ask(token).status, status);
    EXPECT_EQ(requests_.size(), before) << token;
    executor_.advance(Duration(1));
    EXPECT_EQ(ask(token).status, status);
    EXPECT_GT(requests_.size(), before) << token;
  }
}

TEST_F(TokenAccessTest, AResultIsForOneTokenMethodAndPath) {
  ASSERT_EQ(ask("Bearer good").status, 200);
  EXPECT_EQ(ask("Bearer other").status, 403);
  const std::size_t before = requests_.size();
  EXPECT_EQ(ask("Bearer good", "/inspect/cluster").status, 200);
  EXPECT_EQ(requests_.size(), before + 2);
  EXPECT_EQ(ask("Bearer good", "/metrics", "POST").status, 200);
  EXPECT_EQ(requests_.size(), before + 4);
}

TEST_F(TokenAccessTest, ARevokedTokenIsRefusedWhenTheResultHasExpired) {
  ASSERT_EQ(ask("Bearer good").status, 200);
  api_.set_token("good", {.name = "prometheus", .uid = {}, .groups = {}, .extra = {}});
  executor_.advance(kAccessKept);
  EXPECT_EQ(ask("Bearer good").status, 403);
}

TEST_F(TokenAccessTest, RefusesWhileTheApiServerDoesNotAnswer) {
  const test::Fault faults[] = {
      {.kind = test::Fault::Kind::kRefuse},
      {.kind = test::Fault::Kind::kLoseAnswer},
      {.status = 403, .body = "{\"message\": \"tokenreviews is forbidden to extender\"}"},
      {.status = 500},
      {.status = 201, .body = "not JSON"},
      {.status = 201, .body = "{\"status\": {\"authenticated\": \"yes\"}}"},
  };
  for (const test::Fault& fault : faults) {
    fault_ = fault;
    const Answer answer = ask("Bearer good");
    EXPECT_EQ(answer.status, 503) << fault.status;
    EXPECT_EQ(answer.refusal.body,
              "{\"error\": \"the API server did not check the bearer token\"}\n");
  }
  fault_.reset();
  EXPECT_EQ(ask("Bearer good").status, 200) << "a failure is not kept";
}

TEST_F(TokenAccessTest, RefusesWhereOnlyTheSecondReviewFails) {
  api_.set_faults([](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target.find("subjectaccessreviews") == std::string::npos) return std::nullopt;
    return test::Fault{.status = 503};
  });
  EXPECT_EQ(ask("Bearer good").status, 503);
}

TEST_F(TokenAccessTest, LogsNoToken) {
  ASSERT_TRUE(set_log_level("debug"));
  testing::internal::CaptureStderr();
  ask("Bearer secret-token");
  fault_ = test::Fault{.status = 500, .body = "{\"message\": \"no\"}"};
  ask("Bearer secret-token-2");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("a bearer token cannot be checked"));
  EXPECT_THAT(log, Not(HasSubstr("secret-token")));
}

TEST_F(TokenAccessTest, InvalidTokensHaveALimitEachSecond) {
  for (std::size_t i = 0; i < kAccessChecksPerSecondMax; ++i) {
    ASSERT_EQ(ask("Bearer bad" + std::to_string(i)).status, 401);
  }
  const Answer answer = ask("Bearer bad");
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.refusal.body, HasSubstr("too many bearer tokens"));
  executor_.advance(std::chrono::seconds(1));
  EXPECT_EQ(ask("Bearer bad").status, 401);
}

TEST_F(TokenAccessTest, ATokenThatWasAllowedIsCheckedDespiteInvalidOnes) {
  ASSERT_EQ(ask("Bearer good").status, 200);
  executor_.advance(kAccessKept);
  for (std::size_t i = 0; i < kAccessChecksPerSecondMax; ++i) ask("Bearer x" + std::to_string(i));
  EXPECT_EQ(ask("Bearer new").status, 503);
  EXPECT_EQ(ask("Bearer good").status, 200);
}

TEST_F(TokenAccessTest, ChecksAtTheSameTimeHaveALimit) {
  ASSERT_EQ(ask("Bearer good").status, 200);
  executor_.advance(kAccessKept);
  delay_answers();
  for (std::size_t i = 0; i < kAccessChecksMax / 2; ++i) begin("Bearer x" + std::to_string(i));
  EXPECT_EQ(ask("Bearer new").status, 503);
  for (std::size_t i = 0; i < kAccessChecksMax / 2; ++i) begin("Bearer good");
  EXPECT_EQ(ask("Bearer good").status, 503);
  executor_.advance(2 * kAccessCheckTimeout);
  EXPECT_EQ(ended_.size(), kAccessChecksMax);
  fault_.reset();
  EXPECT_EQ(ask("Bearer new").status, 401) << "ended checks leave their places";
}

TEST_F(TokenAccessTest, CallsNothingAfterItsEnd) {
  delay_answers();
  begin("Bearer good");
  access_.reset();
  executor_.advance(2 * kAccessCheckTimeout);
  EXPECT_TRUE(ended_.empty());
}

}  // namespace
}  // namespace mgpu
