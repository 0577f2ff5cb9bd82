// Unexpected states in the API: what a pod may hold counts, drift is reported, totals never wrap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/ledger/ledger.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {
using test::assume_id;
using test::assume_text;
using test::blocking_claim;
using test::bound_claim;
using test::facts_of;
using test::used_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SurprisesTest : public testing::Test {
 protected:
  SurprisesTest() { ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]")); }

  std::optional<DriftKind> drift_of(const char* pod) {
    return ledger.reader().claim({"default", pod})->claim.drift;
  }

  Ledger ledger;
};

// --- unknown cards -------------------------------------------------------------------------------

TEST_F(SurprisesTest, CardThatTheNodeDoesNotHaveIsDriftAndBlocksNoOther) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "5"));
  EXPECT_EQ(drift_of("a"), DriftKind::kBindingWithoutCards);
  EXPECT_THAT(ledger.reader().claim({"default", "a"})->claim.drift_detail,
              HasSubstr("n1 has no card 5"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(ledger.reader().counts().drifting, 1u);
  EXPECT_EQ(ledger.reader().drifting().size(), 1u);
  EXPECT_EQ(assume_text(ledger, "b", "n1", "wholex2"), "0,1");
}

TEST_F(SurprisesTest, HoldOnAnUnknownCardCountsWhenTheCardAppears) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300x2", "1,5"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000] 5[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300 5=30/300");
  EXPECT_EQ(drift_of("a"), std::nullopt);
  EXPECT_THAT(ledger.reader().drifting(), IsEmpty());
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0 5=0/0");
}

TEST_F(SurprisesTest, CardThatReturnsHasItsHold) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  ledger.apply_node(facts_of("n1: 0[100/1000]"));
  EXPECT_EQ(drift_of("a"), DriftKind::kBindingWithoutCards);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0");
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  EXPECT_EQ(drift_of("a"), std::nullopt);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
}

TEST_F(SurprisesTest, ReplacedCardHasANewIndexAndIsEmpty) {
  ledger.apply_pod(bound_claim("a", "n1", "whole", "1"));
  ledger.apply_node(facts_of("n1: 0[100/1000] 2[100/1000]"));
  EXPECT_EQ(assume_text(ledger, "b", "n1", "wholex2"), "0,2");
}

TEST_F(SurprisesTest, AssumedClaimOutlivesItsCard) {
  const ClaimId id = assume_id(ledger, "a", "n1", "wholex2");
  ledger.apply_node(facts_of("n1: 0[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=100/1000");
  ledger.forget(id);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0");
}

// --- cards that change ---------------------------------------------------------------------------

TEST_F(SurprisesTest, WholeCardHoldFollowsTheMemoryOfTheCard) {
  ledger.apply_pod(bound_claim("a", "n1", "whole", "0"));
  ledger.apply_node(facts_of("n1: 0[100/4000] 1[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=100/4000 1=0/0");
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(SurprisesTest, CardThatShrinksUnderItsPodsIsFull) {
  ledger.apply_pod(bound_claim("a", "n1", "30/800", "0"));
  ledger.apply_node(facts_of("n1: 0[100/500] 1[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/800 1=0/0");
  EXPECT_EQ(ledger.reader().counts().overfull, 1u);
  EXPECT_EQ(assume_text(ledger, "b", "n1", "10/300"), "1");
}

TEST_F(SurprisesTest, UnhealthyCardKeepsItsPodsAndGetsNoOthers) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_node(facts_of("n1: 0[100/1000 unhealthy] 1[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "30/300"), "1");
}

TEST_F(SurprisesTest, NodeWhoseCardsCannotBeReadHasNoneAndAProblem) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  NodeFacts unreadable;
  unreadable.name = NodeName("n1");
  unreadable.problem = "not JSON";
  ledger.apply_node(unreadable);
  EXPECT_EQ(ledger.reader().node(NodeName("n1"))->problem, "not JSON");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "30/300"), sentence(Reason::kNoCards));
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  EXPECT_EQ(ledger.reader().node(NodeName("n1"))->problem, "");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(SurprisesTest, ProblemOfANodeWithoutCardsIsKeptUpToDate) {
  NodeFacts unreadable;
  unreadable.name = NodeName("n2");
  ledger.apply_node(unreadable);
  unreadable.problem = "not JSON";
  ledger.apply_node(unreadable);
  EXPECT_EQ(ledger.reader().node(NodeName("n2"))->problem, "not JSON");
}

// --- pods whose cards are not known --------------------------------------------------------------

TEST_F(SurprisesTest, PodWithoutReadableCardsMakesEveryCardUncertain) {
  ledger.apply_pod(blocking_claim("a", "n1"));
  ledger.apply_pod(blocking_claim("b", "n1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0? 1=0/0?");
  EXPECT_EQ(assume_text(ledger, "c", "n1", "10/100"), sentence(Reason::kCardsUncertain));
  EXPECT_EQ(ledger.reader().counts().drifting, 2u);
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0? 1=0/0?");
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(assume_text(ledger, "c", "n1", "10/100"), "0");
  EXPECT_EQ(ledger.reader().counts().drifting, 0u);
}

TEST_F(SurprisesTest, PodBoundWithoutCardsGetsNoneByAnAnnotation) {
  ledger.apply_pod(blocking_claim("a", "n1"));
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0? 1=0/0?");
  EXPECT_EQ(drift_of("a"), DriftKind::kBindingWithoutCards);
}

TEST_F(SurprisesTest, PodWithABrokenAnnotationKeepsItsCards) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  ledger.apply_pod(blocking_claim("a", "n1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
  EXPECT_EQ(drift_of("a"), DriftKind::kChangedAnnotations);
}

TEST_F(SurprisesTest, PodWithoutReadableCardsCountsOnEachCard) {
  ledger.apply_pod(test::drifting_claim("a", "n1", "30/300"));
  ledger.apply_pod(test::drifting_claim("b", "n1", "50/2000"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=80/1300 1=80/1300");
  EXPECT_EQ(ledger.reader().counts().drifting, 2u);
  EXPECT_EQ(ledger.reader().counts().overfull, 0u);
  ledger.remove_pod(PodUid("b"));
  EXPECT_EQ(assume_text(ledger, "c", "n1", "70/700x2"), "0,1");
}

TEST_F(SurprisesTest, CardsThatAppearUnderABlockingPodAreUncertainToo) {
  ledger.apply_pod(blocking_claim("a", "n1"));
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000] 2[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0? 1=0/0? 2=0/0?");
}

// --- totals over capacity ------------------------------------------------------------------------

TEST_F(SurprisesTest, TotalsOverCapacityMeanFull) {
  ledger.apply_pod(bound_claim("a", "n1", "80/800", "0"));
  ledger.apply_pod(bound_claim("b", "n1", "80/800", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=160/1600 1=0/0");
  EXPECT_EQ(ledger.reader().counts().overfull, 1u);
  EXPECT_EQ(ledger.reader().node(NodeName("n1"))->node.cards[0].room(), Share{});
  EXPECT_EQ(assume_text(ledger, "c", "n1", "10/100"), "1");
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=80/800 1=10/100");
  EXPECT_EQ(ledger.reader().counts().overfull, 0u);
}

TEST_F(SurprisesTest, SharesLargerThanAnyCardDoNotWrap) {
  for (int i = 0; i < 1000; ++i)
    ledger.apply_pod(bound_claim("p" + std::to_string(i), "n1", "100/16777216", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=100000/16777216000 1=0/0");
  EXPECT_EQ(assume_text(ledger, "c", "n1", "10/100"), "1");
}

// --- nodes added and removed ---------------------------------------------------------------------

TEST_F(SurprisesTest, DeletedNodeGetsNoPodsAndReturnsWithItsClaims) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.remove_node(NodeName("n1"));
  EXPECT_EQ(assume_text(ledger, "b", "n1", "10/100"), sentence(Reason::kNodeUnknown));
  EXPECT_EQ(ledger.reader().counts().nodes, 0u);
  EXPECT_EQ(ledger.reader().counts().drifting, 0u);
  EXPECT_THAT(ledger.reader().node(NodeName("n1"))->problem, HasSubstr("no such node"));
  EXPECT_EQ(ledger.reader().node(NodeName("n1"))->claims.size(), 1u);
  EXPECT_EQ(used_text(ledger, "n1"), "");
  ledger.reader().read(Instant{}, [](const View& view) {
    EXPECT_EQ(view.find("n1"), nullptr);
    EXPECT_EQ(view.claims_on("n1").size(), 1u);
  });
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().node(NodeName("n1"))->problem, "");
}

TEST_F(SurprisesTest, DeletedNodeIsRemovedWithItsLastPod) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.remove_node(NodeName("n1"));
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n1")));
  ledger.remove_pod(PodUid("a"));
  EXPECT_THAT(ledger.reader().node_names(), IsEmpty());
  ledger.remove_node(NodeName("n1"));
}

TEST_F(SurprisesTest, NodeRemovedByARelistKeepsItsClaims) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.replace_nodes({});
  EXPECT_EQ(ledger.reader().counts().nodes, 0u);
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
  std::vector<NodeFacts> listed;
  listed.push_back(facts_of("n1: 0[100/1000]"));
  ledger.replace_nodes(std::move(listed));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300");
}

TEST_F(SurprisesTest, NodeSeenAfterItsPodsHasThemCounted) {
  ledger.apply_pod(bound_claim("a", "n2", "whole", "0"));
  ledger.apply_pod(bound_claim("b", "n2", "30/300", "3"));
  ledger.apply_pod(blocking_claim("c", "n3"));
  EXPECT_EQ(drift_of("a"), std::nullopt);
  ledger.apply_node(facts_of("n2: 0[100/1000]"));
  ledger.apply_node(facts_of("n3: 0[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n2"), "0=100/1000");
  EXPECT_EQ(drift_of("b"), DriftKind::kBindingWithoutCards);
  EXPECT_EQ(used_text(ledger, "n3"), "0=0/0?");
}

TEST_F(SurprisesTest, EventsOfANodeThatChangeNothingKeepTotals) {
  assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

// --- names and replays ---------------------------------------------------------------------------

TEST_F(SurprisesTest, PodOfTheSameNameAndAnotherUidIsAnotherPod) {
  Claim successor = bound_claim("new uid", "n1", "20/200", "1");
  successor.pod.name = "a";
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_pod(successor);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=20/200");
  // The end of the old one may be reported after the start of the new one.
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=20/200");
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=20/200");
  EXPECT_EQ(ledger.reader().claim({"default", "a"})->claim.uid, PodUid("new uid"));
}

TEST_F(SurprisesTest, ReplayedEventsChangeNothing) {
  for (int i = 0; i < 3; ++i) {
    ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
    ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
    ledger.apply_pod(bound_claim("b", "n1", "20/200", "0"));
  }
  EXPECT_EQ(used_text(ledger, "n1"), "0=50/500 1=0/0");
  EXPECT_EQ(ledger.reader().counts().bound, 2u);
}

TEST_F(SurprisesTest, PodThatMovesToAnotherNodeIsOnThatNodeOnly) {
  ledger.apply_node(facts_of("n2: 0[100/1000]"));
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_pod(bound_claim("a", "n2", "30/300", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(used_text(ledger, "n2"), "0=30/300");
}

}  // namespace
}  // namespace mgpu::extender
