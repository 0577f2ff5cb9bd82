// LedgerReader::releases(), which ends the delay of a rejection.

#include <gtest/gtest.h>

#include "common/contract/contract.h"
#include "extender/ledger/ledger.h"

namespace mgpu::extender {
namespace {

class ReleasesTest : public ::testing::Test {
 protected:
  ReleasesTest() {
    ledger_.apply_node(node(32'000));
    ledger_.apply_pod(claim("a", 50, 0));
    before_ = ledger_.reader().releases();
  }

  static NodeFacts node(std::int64_t memory) {
    NodeFacts facts;
    facts.name = NodeName("n1");
    for (std::int32_t i = 0; i < 2; ++i) {
      CardFacts card;
      card.index = CardIndex(i);
      card.uuid = CardUuid("GPU-" + std::to_string(i));
      card.memory = MiB(memory);
      facts.cards.push_back(card);
    }
    return facts;
  }

  static Claim claim(const std::string& uid, std::int64_t core, std::int32_t card) {
    Claim claim;
    claim.pod = {"default", uid};
    claim.uid = PodUid(uid);
    claim.node = NodeName("n1");
    ContainerRequest container;
    container.name = "app";
    container.per_card = {Percent(core), MiB(1000)};
    claim.request.containers = {container};
    claim.placement = Placement{{{CardIndex(card)}}};
    return claim;
  }

  bool rose() const { return ledger_.reader().releases() > before_; }

  Ledger ledger_;
  std::uint64_t before_ = 0;
};

TEST_F(ReleasesTest, IncreasesWhenAPodEnds) {
  ledger_.remove_pod(PodUid("a"));
  EXPECT_TRUE(rose());
}

TEST_F(ReleasesTest, IncreasesWhenARelistNoLongerHasAPod) {
  ledger_.replace_pods({});
  EXPECT_TRUE(rose());
}

TEST_F(ReleasesTest, IncreasesWhenAPodMayNoLongerHoldOtherCards) {
  Claim unplaced = claim("b", 20, 0);
  unplaced.placement.reset();
  const auto answer = ledger_.assume(unplaced, *find_policy("binpack")->card, Instant{});
  unplaced.most_of_one_card = Share{Percent(20), MiB(1000)};
  unplaced.drift = DriftKind::kBindingWithoutCards;
  ledger_.apply_pod(unplaced);
  before_ = ledger_.reader().releases();
  ledger_.bound(std::get<Assumed>(answer).id, Instant{});
  EXPECT_TRUE(rose());
}

TEST_F(ReleasesTest, StaysWhenTheAnnotationsOfAPodAreEdited) {
  ledger_.apply_pod(claim("a", 50, 1));
  ledger_.apply_pod(claim("a", 20, 0));
  EXPECT_FALSE(rose());
}

TEST_F(ReleasesTest, IncreasesWhenANodeIsAddedOrItsCardsChange) {
  ledger_.apply_node(node(64'000));
  EXPECT_TRUE(rose());
}

TEST_F(ReleasesTest, StaysWhenAPodIsAddedOrSeenAgain) {
  ledger_.apply_pod(claim("b", 20, 0));
  ledger_.apply_pod(claim("a", 50, 0));
  ledger_.apply_node(node(32'000));
  ledger_.remove_pod(PodUid("never seen"));
  EXPECT_FALSE(rose());
}

}  // namespace
}  // namespace mgpu::extender
