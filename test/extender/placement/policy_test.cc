#include "extender/placement/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/placement/measures.h"
#include "extender/placement/policies/policies.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::share_of;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

TEST(FindPolicy, OneNameIsForNodesAndCards) {
  for (const std::string_view name : policy_names()) {
    const auto choice = find_policy(name);
    ASSERT_TRUE(choice) << name;
    EXPECT_EQ(choice->node->name, name);
    EXPECT_EQ(choice->card->name, name);
  }
  EXPECT_TRUE(find_policy(kDefaultPolicy));
}

TEST(FindPolicy, TwoNamesAreTheNodesAndTheCards) {
  const auto choice = find_policy("spread/binpack");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->node, &kSpread);
  EXPECT_EQ(choice->card, &kBinpack);
}

TEST(FindPolicy, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const char* name : {"", "/", "best", "binpack/", "/binpack", "binpack/best", "Binpack",
                           " binpack", "binpack/spread/binpack", "fgd", "binpack/random"}) {
    const auto choice = find_policy(name);
    ASSERT_FALSE(choice) << name;
    EXPECT_THAT(choice.error().message,
                HasSubstr("policy must be equilibrium, binpack, spread, or <"));
    EXPECT_THAT(choice.error().message, HasSubstr('"' + std::string(name) + '"'));
    EXPECT_THAT(choice.error().message, EndsWith("published policies are only in mgpu-sim trace"));
  }
  EXPECT_LT(find_policy(std::string(1 << 20, 'x')).error().message.size(), 300u);
}

TEST(PolicyNames, AreInTheOrderOfTheTable) {
  EXPECT_THAT(policy_names(), ElementsAre("equilibrium", "binpack", "spread"));
}

TEST(Fill, IsTheMeanOfBothDimensions) {
  struct {
    const char* capacity;
    const char* taken;
    Score fill;
  } const cases[] = {
      {"100/1000", "0/0", 0},
      {"100/1000", "50/500", 500'000},
      {"100/1000", "30/100", 200'000},
      {"100/1000", "100/1000", kScoreMax},
      {"100/1000", "1/0", 5'000},
      // An over-full dimension is full.
      {"100/1000", "400/5000", kScoreMax},
      {"100/1000", "400/0", 500'000},
      // A dimension of which there is nothing is full.
      {"100/0", "0/0", 500'000},
      {"0/0", "0/0", kScoreMax},
      // The largest amounts there are.
      {"100/4611686018427387904", "50/2305843009213693952", 500'000},
      {"100/4611686018427387904", "0/1", 0},
      {"100/1", "0/4611686018427387904", 500'000},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(fill(share_of(test.capacity), share_of(test.taken)), test.fill)
        << test.capacity << " " << test.taken;
  }
}

TEST(FillAfter, CountsUsedExpectedAndThePodOnHealthyCards) {
  const std::vector<CardHold> pod{{CardIndex(1), share_of("50/500")},
                                  {CardIndex(4), share_of("50/500")}};
  struct {
    const char* node;
    Score fill;
  } const cases[] = {
      {"n: 1[100/1000]", 500'000},
      {"n: 0[100/1000] 1[100/1000]", 250'000},
      {"n: 0[100/1000] 1[100/1000] 3[100/1000] 4[100/1000]", 250'000},
      {"n: 0[50/500 of 1000] 1[100/1000]", 500'000},
      {"n: 0[100/1000 expected=100/1000] 1[100/1000]", 750'000},
      {"n: 0[100/1000 unhealthy] 1[100/1000]", 500'000},
      {"n: 1[100/1000 used=100/1000]", kScoreMax},
      {"n: 1[100/1000 unhealthy]", 0},
      {"n:", 0},
  };
  for (const auto& test : cases)
    EXPECT_EQ(fill_after(node_of(test.node), pod), test.fill) << test.node;
}

// The score of putting 20/200 on a card of 100/1000.
Score of_card(const Policy& policy, const char* taken) {
  const Node node = node_of("n: 0[100/1000]");
  return policy.score_card(GpuRequest{}, node, node.cards[0], share_of(taken), share_of("20/200"));
}

TEST(Binpack, PrefersTheFullestCardAndThenEmptyOnes) {
  EXPECT_EQ(of_card(kBinpack, "0/0"), 100'000);
  EXPECT_EQ(of_card(kBinpack, "20/200"), 500'000 + 200'000);
  EXPECT_EQ(of_card(kBinpack, "80/800"), kScoreMax);
  EXPECT_GT(of_card(kBinpack, "1/0"), of_card(kBinpack, "0/0"));
}

// The pod would fill a larger part of the small card, which is empty.
TEST(Binpack, KeepsASmallEmptyCardFree) {
  const Node node = node_of("n: 0[100/300] 1[95/9500 of 10000]");
  const Share share = share_of("20/300");
  EXPECT_GT(kBinpack.score_card(GpuRequest{}, node, node.cards[1], node.cards[1].used, share),
            kBinpack.score_card(GpuRequest{}, node, node.cards[0], node.cards[0].used, share));
}

TEST(Spread, PrefersTheEmptiestCard) {
  EXPECT_EQ(of_card(kSpread, "0/0"), 800'000);
  EXPECT_EQ(of_card(kSpread, "20/200"), 600'000);
  EXPECT_EQ(of_card(kSpread, "80/800"), 0);
}

TEST(Policies, ScoreNodesByWhatIsTakenAfterwards) {
  const Node fuller = node_of("fuller: 0[50/500 of 1000] 1[100/1000]");
  const Node emptier = node_of("emptier: 0[80/800 of 1000] 1[100/1000]");
  const std::vector<CardHold> pod{{CardIndex(0), share_of("20/200")}};
  EXPECT_GT(kBinpack.score_node(GpuRequest{}, fuller, pod),
            kBinpack.score_node(GpuRequest{}, emptier, pod));
  EXPECT_LT(kSpread.score_node(GpuRequest{}, fuller, pod),
            kSpread.score_node(GpuRequest{}, emptier, pod));
}

TEST(Policies, ScoresStayWithinTheirRange) {
  for (const Policy* policy : {&kBinpack, &kSpread}) {
    for (const char* card : {"0[100/1000]", "0[0/0 of 1000]", "0[100/1000 used=900/90000]",
                             "0[100/0]", "0[100/1 expected=100/4611686018427387000]"}) {
      const Node node = node_of(std::string("n: ") + card);
      const Share share = share_of("100/100");
      for (const Score score :
           {policy->score_card(GpuRequest{}, node, node.cards[0], node.cards[0].used, share),
            policy->score_node(GpuRequest{}, node, {{CardIndex(0), share}}),
            policy->score_node(GpuRequest{}, Node{}, {})}) {
        EXPECT_GE(score, 0) << policy->name << card;
        EXPECT_LE(score, kScoreMax) << policy->name << card;
      }
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
