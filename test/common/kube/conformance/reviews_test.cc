// TokenReview and SubjectAccessReview, with which the programs check bearer tokens.
#include "common/kube/objects/reviews.h"

#include "common/kube/request.h"
#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

class ReviewConformance : public Conformance {
 protected:
  Answer send(const kube::Request& request) {
    return call(request.method, request.target, request.body, request.content_type);
  }
  bool is_allowed(const kube::UserInfo& user) {
    const Answer answer = send(kube::review_access(user, "get", "/metrics"));
    EXPECT_EQ(answer.code, 201) << answer.text;
    const auto allowed = kube::read_access_review(answer.text);
    EXPECT_TRUE(allowed) << allowed.error().message;
    return allowed && *allowed;
  }
};
INSTANTIATE_TEST_SUITE_P(Server, ReviewConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

TEST_P(ReviewConformance, AnUnknownTokenHasNoUser) {
  const Answer answer = send(kube::review_token("no-such-token"));
  EXPECT_EQ(answer.code, 201) << answer.text;
  const auto user = kube::read_token_review(answer.text);
  ASSERT_TRUE(user) << user.error().message;
  EXPECT_FALSE(*user);
}

TEST_P(ReviewConformance, OnlyAllowedUsersHaveAccess) {
  EXPECT_TRUE(
      is_allowed({.name = "someone", .uid = {}, .groups = {"system:masters"}, .extra = {}}));
  EXPECT_FALSE(is_allowed({.name = "someone",
                           .uid = "1",
                           .groups = {"system:authenticated"},
                           .extra = {{"example.com/scope", {"a", "b"}}}}));
}

}  // namespace
}  // namespace mgpu::test
