#include "extender/ledger/disruption_budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using Kind = kube::WatchEvent::Kind;

std::string budget(const std::string& name, const std::string& selector, int allowed,
                   const std::string& name_space = "d") {
  return R"({"metadata":{"namespace":")" + name_space + R"(","name":")" + name +
         R"("},"spec":{"selector":)" + selector + R"(},"status":{"disruptionsAllowed":)" +
         std::to_string(allowed) + "}}";
}

const std::string kWeb = R"({"matchLabels":{"app":"web"}})";

struct BudgetsTest : testing::Test {
  // Pods of namespace `name_space`, each by its label app.
  std::vector<bool> violations(const std::vector<std::string>& apps,
                               const std::string& name_space = "d") const {
    std::vector<kube::StringMap> labels;
    for (const auto& app : apps) {
      labels.push_back(app.empty() ? kube::StringMap() : kube::StringMap{{"app", app}});
    }
    std::vector<DisruptionBudgets::PodLabels> pods;
    for (const auto& one : labels) pods.push_back({&name_space, &one});
    return budgets.violations(pods);
  }

  DisruptionBudgets budgets;
  kube::ObjectEvents<kube::PodDisruptionBudget> events{budgets.consumer()};
};

TEST_F(BudgetsTest, WithoutBudgetsNothingViolates) {
  EXPECT_THAT(violations({"web", ""}), ElementsAre(false, false));
}

TEST_F(BudgetsTest, EachEvictionCountsAfterThoseBeforeIt) {
  events.on_event({Kind::kApply, budget("b", kWeb, 2)});
  EXPECT_THAT(violations({"web", "db", "web", "web", "web"}),
              ElementsAre(false, false, false, true, true));
  // A query changes nothing.
  EXPECT_THAT(violations({"web"}), ElementsAre(false));
}

TEST_F(BudgetsTest, APodOfTwoBudgetsCountsInBoth) {
  events.on_event({Kind::kApply, budget("a", kWeb, 1)});
  events.on_event({Kind::kApply, budget("b", kWeb, 2)});
  EXPECT_THAT(violations({"web", "web", "web"}), ElementsAre(false, true, true));
}

TEST_F(BudgetsTest, AreOfTheirNamespace) {
  events.on_event({Kind::kApply, budget("b", kWeb, 0, "other")});
  EXPECT_THAT(violations({"web"}), ElementsAre(false));
  EXPECT_THAT(violations({"web"}, "other"), ElementsAre(true));
  EXPECT_THAT(violations({"web"}, "othe"), ElementsAre(false));
}

TEST_F(BudgetsTest, AnEmptySelectorSelectsEveryPodAndNoneSelectsNone) {
  events.on_event({Kind::kApply, budget("all", "{}", 0, "d")});
  events.on_event({Kind::kApply, budget("none", "null", 0, "e")});
  EXPECT_THAT(violations({"web", ""}), ElementsAre(true, true));
  EXPECT_THAT(violations({"web", ""}, "e"), ElementsAre(false, false));
}

TEST_F(BudgetsTest, FollowEvents) {
  events.on_event({Kind::kApply, budget("b", kWeb, 0)});
  EXPECT_THAT(violations({"web"}), ElementsAre(true));
  events.on_event({Kind::kApply, budget("b", kWeb, 1)});
  EXPECT_THAT(violations({"web"}), ElementsAre(false));
  events.on_event({Kind::kApply, budget("b", kWeb, 0)});
  events.on_event({Kind::kDelete, budget("b", kWeb, 0)});
  EXPECT_THAT(violations({"web"}), ElementsAre(false));
}

TEST_F(BudgetsTest, ARelistReplacesAll) {
  events.on_event({Kind::kApply, budget("old", kWeb, 0)});
  events.on_event({Kind::kRelistBegin, ""});
  events.on_event({Kind::kRelistObject, budget("new", R"({"matchLabels":{"app":"db"}})", 0)});
  EXPECT_THAT(violations({"web", "db"}), ElementsAre(true, false));
  events.on_event({Kind::kRelistEnd, ""});
  EXPECT_THAT(violations({"web", "db"}), ElementsAre(false, true));
}

TEST_F(BudgetsTest, ARestartedRelistDropsItsFirstPart) {
  events.on_event({Kind::kRelistBegin, ""});
  events.on_event({Kind::kRelistObject, budget("gone", kWeb, 0)});
  events.on_event({Kind::kRelistBegin, ""});
  events.on_event({Kind::kRelistEnd, ""});
  EXPECT_THAT(violations({"web"}), ElementsAre(false));
}

TEST_F(BudgetsTest, AnUnreadableBudgetKeepsItsLastState) {
  events.on_event({Kind::kApply, budget("b", kWeb, 0)});
  events.on_event({Kind::kApply, "{"});
  events.on_event({Kind::kApply, budget("b", "7", 5)});
  EXPECT_THAT(violations({"web"}), ElementsAre(true));
}

TEST_F(BudgetsTest, ARelistWithAnUnreadableBudgetRemovesNone) {
  events.on_event({Kind::kApply, budget("b", kWeb, 0)});
  events.on_event({Kind::kRelistBegin, ""});
  events.on_event({Kind::kRelistObject, "{"});
  events.on_event({Kind::kRelistObject, budget("db", R"({"matchLabels":{"app":"db"}})", 0)});
  events.on_event({Kind::kRelistEnd, ""});
  EXPECT_THAT(violations({"web", "db"}), ElementsAre(true, true));
}

}  // namespace
}  // namespace mgpu::extender
