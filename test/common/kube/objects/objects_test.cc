#include "common/kube/objects/objects.h"

#include <gtest/gtest.h>

namespace mgpu::kube {
namespace {

LabelSelector one_term(std::string op, std::vector<std::string> values = {}) {
  return {{}, {{"tier", std::move(op), std::move(values)}}};
}

TEST(LabelSelector, FollowsKubernetesForEachOperator) {
  const StringMap back{{"tier", "back"}};
  const StringMap unlabelled;
  struct Case {
    LabelSelector selector;
    bool of_back;
    bool of_unlabelled;
  };
  const Case cases[] = {
      {{}, true, true},
      {{{{"tier", "back"}}, {}}, true, false},
      {{{{"tier", "front"}}, {}}, false, false},
      {one_term("In", {"front", "back"}), true, false},
      {one_term("In", {"front"}), false, false},
      {one_term("In"), false, false},
      {one_term("NotIn", {"back"}), false, true},
      {one_term("NotIn", {"front"}), true, true},
      {one_term("Exists"), true, false},
      {one_term("DoesNotExist"), false, true},
      {one_term("Gt", {"1"}), false, false},
      {one_term(""), false, false},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(matches(cases[i].selector, back), cases[i].of_back) << i;
    EXPECT_EQ(matches(cases[i].selector, unlabelled), cases[i].of_unlabelled) << i;
  }
}

TEST(LabelSelector, MatchesOnlyWhenEveryTermMatches) {
  LabelSelector selector{{{"app", "web"}}, {{"tier", "In", {"back"}}, {"old", "DoesNotExist", {}}}};
  EXPECT_TRUE(matches(selector, {{"app", "web"}, {"tier", "back"}}));
  EXPECT_FALSE(matches(selector, {{"app", "db"}, {"tier", "back"}}));
  EXPECT_FALSE(matches(selector, {{"app", "web"}, {"tier", "back"}, {"old", ""}}));
}

}  // namespace
}  // namespace mgpu::kube
