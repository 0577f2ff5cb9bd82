#include "extender/placement/explain.h"

#include <gtest/gtest.h>

#include <string>

#include "extender/placement/limits.h"
#include "extender/placement/policies/policies.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::node_of;
using test::request_of;
using test::text_of;

NodeExplanation explained(const std::string& node, const std::string& request) {
  SearchBudget budget{kPlacementStepsMax};
  return explain(node_of(node), request_of(request), kBinpack, budget);
}

TEST(Explain, GivesTheReasonForEveryCard) {
  struct {
    const char* card;
    const char* request;
    const char* why;
  } const cases[] = {
      {"0[100/1000]", "30/300", ""},
      {"0[20/1000 of 1000]", "30/300", "mgpu-core: requests 30, 20 free"},
      {"0[100/200 of 1000]", "30/300", "mgpu-memory: requests 300, 200 free"},
      {"0[20/200 of 1000]", "30/300",
       "mgpu-core: requests 30, 20 free; mgpu-memory: requests 300, 200 free"},
      {"0[100/1000 used=120/100]", "30/300", "mgpu-core: requests 30, 0 free"},
      {"0[70/1000 of 2024]", "whole", "requests the whole card, 30 % and 1024 MiB are taken"},
      {"0[100/1000 unhealthy]", "30/300", "unhealthy"},
      {"0[100/1000 uncertain]", "30/300", "blocked by a pod whose cards are not known"},
      {"0[100/200]", "30/300",
       "the card is too small: requests 30 % and 300 MiB, it has 100 % and 200 MiB"},
      // The first reason that applies.
      {"0[20/200 of 1000 unhealthy uncertain]", "30/300", "unhealthy"},
      {"0[20/200 of 1000 uncertain]", "30/300", "blocked by a pod whose cards are not known"},
  };
  for (const auto& test : cases) {
    const auto explanation = explained(std::string("n: ") + test.card, test.request);
    ASSERT_EQ(explanation.cards.size(), 1u);
    EXPECT_EQ(explanation.cards[0].why, test.why) << test.card;
    EXPECT_EQ(explanation.cards[0].fits, explanation.cards[0].why.empty()) << test.card;
  }
}

TEST(Explain, ReportsModelsAndUuidsSeparately) {
  GpuRequest request = request_of("30/300");
  request.selector.models = {"H100"};
  request.selector.uuids = {"GPU-1", "GPU-0"};
  const Node node = node_of("n: 0[100/1000 model=A100] 1[100/1000 model=h100] 2[9/9 model=H100]");
  SearchBudget budget{kPlacementStepsMax};
  const auto explanation = explain(node, request, kBinpack, budget);
  EXPECT_EQ(explanation.cards[0].why, "does not match gpu-model");
  EXPECT_EQ(explanation.cards[1].why, "");
  EXPECT_EQ(explanation.cards[2].why, "does not match gpu-uuid");
}

TEST(Explain, SaysWhoGetsAMigDevice) {
  const auto explanation = explained("n: 0[100/1000 model=A100-MIG-1g.5gb]", "30/300");
  EXPECT_EQ(explanation.cards[0].why, "is a MIG device, which gpu-model must name");
  ASSERT_TRUE(explanation.reason);
  EXPECT_EQ(sentence(*explanation.reason, test::request_of("30/300")),
            "node(s) had too few cards beside MIG devices, which gpu-model must name");
  GpuRequest named = test::request_of("30/300");
  named.selector.models = {"T4"};
  EXPECT_EQ(sentence(*explanation.reason, named),
            "node(s) had no card of the requested model or UUID");
}

TEST(Explain, IsOrderedByContainerAndCardAndHasTheNumbers) {
  const auto explanation = explained("n: 2[100/1000] 5[40/400 of 2000]", "30/300 whole");
  std::string text;
  for (const auto& card : explanation.cards) {
    text += std::to_string(card.container) + ":" + std::to_string(card.card.value()) + " " +
            text_of(card.asked) + " of " + text_of(card.room) + (card.fits ? " fits" : "") + "\n";
  }
  EXPECT_EQ(text,
            "0:2 30/300 of 100/1000 fits\n"
            "0:5 30/300 of 40/400 fits\n"
            "1:2 100/1000 of 100/1000 fits\n"
            "1:5 100/2000 of 40/400\n");
}

TEST(Explain, GivesEitherAPlacementOrAReason) {
  const auto fits = explained("n: 0[100/1000] 1[60/600 of 1000]", "30/300");
  EXPECT_EQ(fits.node.str(), "n");
  EXPECT_EQ(text_of(fits.placement.value()), "1");
  EXPECT_FALSE(fits.reason);
  const auto refused = explained("n: 0[90/900 of 1000]", "60/600 40/400");
  EXPECT_FALSE(refused.placement);
  EXPECT_EQ(refused.reason, Reason::kTogether);
  // Each fits that card alone.
  EXPECT_TRUE(refused.cards[0].fits && refused.cards[1].fits);
}

TEST(Explain, WorksWithoutCardsAndWithoutContainers) {
  EXPECT_EQ(explained("n:", "30/300").reason, Reason::kNoCards);
  EXPECT_TRUE(explained("n: 0[100/1000]", "").placement);
  EXPECT_TRUE(explained("n: 0[100/1000]", "").cards.empty());
}

}  // namespace
}  // namespace mgpu::extender
