// How nodes with different profiles are ranked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender {
namespace {

using mgpu::test::at_ms;
using mgpu::test::bound_claim;
using test::args_of;
using test::PodText;

constexpr char kTwoCards[] = R"("vke.volcengine.com/container-multiple-gpu":"2")";

struct ProfileRankingTest : testing::Test, test::VerbsWorld {
  void add(const std::string& node, const std::string& policy, const std::string& claim = "") {
    NodeFacts facts = mgpu::test::facts_of(node + ": 0[100/8000]");
    facts.profile.policy = policy;
    ledger.apply_node(std::move(facts));
    if (!claim.empty())
      ledger.apply_pod(bound_claim(("on-" + node).c_str(), node.c_str(), claim.c_str(), "0"));
  }
  std::map<std::string, std::int64_t> scores(const std::vector<std::string>& names,
                                             const PodText& pod = {}) {
    std::map<std::string, std::int64_t> found;
    const ExtenderArgs args = args_of(pod, names);
    for (const auto& score : prioritize(args, context, at_ms(0)))
      found.emplace(score.node, score.score);
    return found;
  }
};

TEST_F(ProfileRankingTest, NodesOfOneProfileAreRankedByItsPolicy) {
  add("empty", "spread");
  add("half", "spread", "50/4000");
  add("most", "spread", "60/6000");
  const auto found = scores({"empty", "half", "most"});
  EXPECT_EQ(found.at("empty"), 10);
  EXPECT_GT(found.at("half"), found.at("most"));
}

TEST_F(ProfileRankingTest, ThePolicyOfThePodComesFirst) {
  add("empty", "spread");
  add("half", "spread", "50/4000");
  const PodText pod{.annotations = R"("vke.volcengine.com/mgpu-policy":"binpack")"};
  EXPECT_EQ(scores({"empty", "half"}, pod).at("half"), 10);
  EXPECT_EQ(scores({"empty", "half"}).at("empty"), 10) << "not from the cache of the pod before";
}

// binpack, the policy of the extender, takes the group with the fullest node.
TEST_F(ProfileRankingTest, BetweenProfilesThePolicyOfTheExtenderDecides) {
  add("spread-empty", "spread");
  add("spread-most", "spread", "60/6000");
  add("plain-empty", "");
  add("plain-half", "", "50/4000");
  const auto found = scores({"spread-empty", "spread-most", "plain-empty", "plain-half"});
  EXPECT_EQ(found.at("spread-empty"), 10);
  EXPECT_GT(found.at("spread-most"), found.at("plain-half"));
  EXPECT_GT(found.at("plain-half"), found.at("plain-empty"));
}

TEST_F(ProfileRankingTest, ANodeThatChangesItsProfileIsRankedByTheNewOne) {
  add("empty", "");
  add("half", "", "50/4000");
  EXPECT_EQ(scores({"empty", "half"}).at("half"), 10);
  add("empty", "spread");
  add("half", "spread");
  EXPECT_EQ(scores({"empty", "half"}).at("empty"), 10);
}

TEST_F(ProfileRankingTest, FilterSaysThatTheNodeRequiresMore) {
  NodeFacts facts = mgpu::test::facts_of("n1: 0[100/8000]");
  facts.profile.minimum = {Percent(50), MiB()};
  ledger.apply_node(std::move(facts));
  const ExtenderArgs args = args_of({}, {"n1"});
  const FilterReply reply = filter(args, context, at_ms(0));
  ASSERT_EQ(reply.failed_and_unresolvable.size(), 1U);
  EXPECT_EQ(reply.failed_and_unresolvable.front().sentence,
            "node(s) required a larger share of a card");
}

TEST_F(ProfileRankingTest, FilterSaysThatPartsOfSeveralCardsHaveNoLimits) {
  NodeFacts facts = mgpu::test::facts_of("n1: 0[100/8000] 1[100/8000]");
  facts.profile.parts_of_one_card = true;
  ledger.apply_node(std::move(facts));
  const FilterReply reply = filter(
      args_of({.requests = {"60/2000"}, .annotations = kTwoCards}, {"n1"}), context, at_ms(0));
  ASSERT_EQ(reply.failed_and_unresolvable.size(), 1U);
  EXPECT_EQ(reply.failed_and_unresolvable.front().sentence,
            "node(s) could not run parts of several cards, which MPS cannot limit");
}

}  // namespace
}  // namespace mgpu::extender
