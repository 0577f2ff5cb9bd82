#include "common/kube/objects/reviews.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/request.h"

namespace mgpu::kube {
namespace {

using testing::ElementsAre;

TEST(Reviews, SendATokenInTheBody) {
  const Request request = review_token("a\"b");
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.target, "/apis/authentication.k8s.io/v1/tokenreviews");
  EXPECT_EQ(request.content_type, "application/json");
  EXPECT_EQ(request.body, R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview",)"
                          R"("spec":{"token":"a\"b"}})");
}

TEST(Reviews, AskForTheUserTheVerbAndThePath) {
  const UserInfo user{.name = "u", .uid = "1", .groups = {"g"}, .extra = {{"e", {"x", "y"}}}};
  const Request request = review_access(user, "get", "/metrics");
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.target, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
  EXPECT_EQ(request.body,
            R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":)"
            R"({"user":"u","uid":"1","groups":["g"],"extra":{"e":["x","y"]},)"
            R"("nonResourceAttributes":{"path":"/metrics","verb":"get"}}})");
}

TEST(Reviews, AskForAResource) {
  const UserInfo user{.name = "u", .uid = "", .groups = {}, .extra = {}};
  const ResourceAccess access{.verb = "get",
                              .group = "coordination.k8s.io",
                              .resource = "leases",
                              .subresource = "status",
                              .name_space = "kube-system",
                              .name = "mgpu-extender"};
  EXPECT_EQ(review_access(user, access).body,
            R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":)"
            R"({"user":"u","uid":"","groups":[],"extra":{},"resourceAttributes":{"verb":"get",)"
            R"("group":"coordination.k8s.io","resource":"leases","subresource":"status",)"
            R"("namespace":"kube-system","name":"mgpu-extender"}}})");
}

TEST(Reviews, ReadTheUser) {
  const auto user = read_token_review(
      R"({"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"u","uid":"1",)"
      R"("groups":["a","b"],"extra":{"e":["x"]}},"audiences":["api"]}})");
  ASSERT_TRUE(user && *user);
  EXPECT_EQ((*user)->name, "u");
  EXPECT_EQ((*user)->uid, "1");
  EXPECT_THAT((*user)->groups, ElementsAre("a", "b"));
  EXPECT_THAT((*user)->extra.at("e"), ElementsAre("x"));
}

TEST(Reviews, ATokenIsNotValid) {
  for (const char* json :
       {R"({"status":{"user":{}}})", R"({"status":{"authenticated":false,"error":"expired"}})",
        R"({"status":{"authenticated":false,"user":{"username":"u"}}})", R"({"status":null})",
        "{}"}) {
    const auto user = read_token_review(json);
    ASSERT_TRUE(user) << json;
    EXPECT_FALSE(*user) << json;
  }
}

TEST(Reviews, AnAnswerThatCannotBeReadIsAnError) {
  for (const char* json :
       {"", "[]", R"({"status":{"authenticated":"yes"}})", R"({"status":{"authenticated":true}})",
        R"({"status":{"authenticated":true,"user":{"username":""}}})"}) {
    EXPECT_FALSE(read_token_review(json)) << json;
  }
  for (const char* json : {"", "[]", R"({"status":{"allowed":1}})"}) {
    EXPECT_FALSE(read_access_review(json)) << json;
  }
}

TEST(Reviews, ReadTheAccess) {
  EXPECT_TRUE(*read_access_review(R"({"status":{"allowed":true}})"));
  EXPECT_FALSE(*read_access_review(R"({"status":{"allowed":false,"reason":"no"}})"));
  EXPECT_FALSE(*read_access_review(R"({"status":{"allowed":true,"denied":true}})"));
  EXPECT_FALSE(*read_access_review("{}"));
}

}  // namespace
}  // namespace mgpu::kube
