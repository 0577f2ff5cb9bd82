// The life of a claim: assumed, bound, released.
#include "extender/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {
using test::assume_id;
using test::assume_text;
using test::at_ms;
using test::bound_claim;
using test::facts_of;
using test::used_text;
using testing::ElementsAre;
using testing::IsEmpty;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() { ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]")); }

  std::vector<ClaimId> assumed(Instant before) {
    std::vector<ClaimId> ids;
    for (const auto& claim : ledger.assumed_before(before)) ids.push_back(claim.id);
    return ids;
  }

  Ledger ledger;
};

TEST_F(LedgerTest, AssumedShareIsUsedAtOnce) {
  EXPECT_EQ(assume_text(ledger, "a", "n1", "30/300"), "0");
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  const Counts counts = ledger.reader().counts();
  EXPECT_EQ(counts.assumed, 1u);
  EXPECT_EQ(counts.bound, 0u);
}

TEST_F(LedgerTest, EachContainerHoldsItsOwnCards) {
  EXPECT_EQ(assume_text(ledger, "a", "n1", "30/300x2 60/500"), "0,1 | 0");
  EXPECT_EQ(used_text(ledger, "n1"), "0=90/800 1=30/300");
}

TEST_F(LedgerTest, RefusalChangesNothing) {
  assume_id(ledger, "a", "n1", "60/300x2");
  EXPECT_EQ(assume_text(ledger, "b", "n1", "50/300"), sentence(Reason::kCore));
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/300 1=60/300");
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
  EXPECT_FALSE(ledger.reader().claim({"default", "b"}));
}

TEST_F(LedgerTest, NothingIsAssumedOnAnUnknownNode) {
  EXPECT_EQ(assume_text(ledger, "a", "n2", "30/300"), sentence(Reason::kNodeUnknown));
  EXPECT_EQ(ledger.reader().counts().nodes, 1u);
}

TEST_F(LedgerTest, ForgottenShareIsFreeAgain) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.forget(id);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  ledger.forget(id);
  ledger.forget(4711);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(LedgerTest, WatchConfirmsAnAssumedClaimWithoutCountingItTwice) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.bound(id, at_ms(1));
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
}

TEST_F(LedgerTest, OutcomeAfterTheWatchChangesNothing) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.bound(id, at_ms(1));
  ledger.forget(id);
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
}

TEST_F(LedgerTest, PodBoundToAnotherNodeRemovesItsAttempts) {
  ledger.apply_node(facts_of("n2: 0[100/1000]"));
  assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(bound_claim("a", "n2", "30/300", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(used_text(ledger, "n2"), "0=30/300");
}

TEST_F(LedgerTest, AttemptsOfUnknownOutcomeKeepTheirShares) {
  const ClaimId first = assume_id(ledger, "a", "n1", "30/300");
  const ClaimId second = assume_id(ledger, "a", "n1", "30/300");
  EXPECT_NE(first, second);
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/600 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 2u);
}

TEST_F(LedgerTest, AcceptedAttemptRemovesTheOthers) {
  assume_id(ledger, "a", "n1", "30/300");
  const ClaimId second = assume_id(ledger, "a", "n1", "20/200");
  ledger.bound(second, at_ms(5));
  EXPECT_EQ(used_text(ledger, "n1"), "0=20/200 1=0/0");
  EXPECT_THAT(assumed(at_ms(6)), ElementsAre(second));
}

TEST_F(LedgerTest, AttemptOfABoundPodCountsBesideItUntilItsOutcome) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  const ClaimId taken = assume_id(ledger, "a", "n1", "30/300");
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/600 1=0/0");
  ledger.bound(taken, at_ms(1));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  ledger.forget(assume_id(ledger, "a", "n1", "30/300"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
}

TEST_F(LedgerTest, WhatABoundPodSaysReplacesItsAttempts) {
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  ledger.apply_node(facts_of("n2: 0[100/1000] 1[100/1000]"));
  assume_id(ledger, "a", "n1", "30/300");
  assume_id(ledger, "a", "n1", "30/300");
  ledger.assume_bound(bound_claim("a", "n2", "30/300", "1"), at_ms(5));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(used_text(ledger, "n2"), "0=0/0 1=30/300");
  EXPECT_EQ(ledger.reader().counts().assumed, 1u);
  EXPECT_EQ(ledger.assumed_before(at_ms(5)).size(), 0u);
  EXPECT_EQ(ledger.assumed_before(at_ms(6)).size(), 1u);
  ledger.apply_pod(bound_claim("a", "n2", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n2"), "0=0/0 1=30/300");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

// Only the watch releases a bound claim, and it may have been faster.
TEST_F(LedgerTest, WhatABoundPodSaysAddsNothingToWhatTheWatchHasShown) {
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  assume_id(ledger, "a", "n1", "30/300");
  ledger.assume_bound(bound_claim("a", "n1", "30/300", "0"), at_ms(5));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(LedgerTest, OnlyAssumedClaimsLongUntouchedAreListed) {
  const ClaimId early = assume_id(ledger, "a", "n1", "10/100", at_ms(10));
  const ClaimId late = assume_id(ledger, "b", "n1", "10/100", at_ms(20));
  ledger.apply_pod(bound_claim("c", "n1", "10/100", "0"));
  EXPECT_THAT(assumed(at_ms(10)), IsEmpty());
  EXPECT_THAT(assumed(at_ms(11)), ElementsAre(early));
  ledger.bound(early, at_ms(30));
  EXPECT_THAT(assumed(at_ms(21)), ElementsAre(late));
  EXPECT_THAT(assumed(at_ms(31)), ElementsAre(early, late));
}

TEST_F(LedgerTest, AssumedClaimHasPodAndNode) {
  assume_id(ledger, "a", "n1", "10/100", at_ms(10));
  const auto assumed = ledger.assumed_before(at_ms(11));
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_EQ(assumed[0].pod, (PodRef{"default", "a"}));
  EXPECT_EQ(assumed[0].uid, PodUid("a"));
  EXPECT_EQ(assumed[0].node, NodeName("n1"));
}

TEST_F(LedgerTest, PodThatEndsReleasesItselfAndItsAttempts) {
  assume_id(ledger, "a", "n1", "30/300");
  assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(bound_claim("b", "n1", "40/400", "1"));
  ledger.remove_pod(PodUid("a"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=40/400");
  ledger.remove_pod(PodUid("b"));
  ledger.remove_pod(PodUid("b"));
  ledger.remove_pod(PodUid("never seen"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
}

TEST_F(LedgerTest, UpdateKeepsTheCards) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

// --- what the pod was bound with -----------------------------------------------------------------

TEST_F(LedgerTest, AcceptedBindingHasPrecedenceOverTheAnnotation) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.bound(id, at_ms(1));
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(LedgerTest, BindingThatIsAcceptedAfterTheWatchHasPrecedenceToo) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=30/300") << "either may be its card";
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=30/300") << "another event decides nothing";
  ledger.bound(id, at_ms(1));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().bound, 1u);
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(LedgerTest, BindingThatIsRefusedAfterTheWatchLeavesWhatItShowed) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"));
  ledger.forget(id);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=30/300");
}

TEST_F(LedgerTest, BindingIsKnownWhereTheAnnotationCannotBeRead) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.apply_pod(test::drifting_claim("a", "n1", "30/300"));
  EXPECT_EQ(used_text(ledger, "n1"), "0=60/600 1=30/300");
  ledger.bound(id, at_ms(1));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

// --- drift ---------------------------------------------------------------------------------------

std::string drift_text(const std::optional<DriftChange>& change) {
  return change ? to_string(change->pod) + " " + test::text_of(change->drift) : "none reported";
}

TEST_F(LedgerTest, DriftIsReportedOnceForEachState) {
  const auto apply = [&](const char* card) {
    return drift_text(ledger.apply_pod(bound_claim("a", "n1", "30/300", card)));
  };
  EXPECT_EQ(apply("0"), "none reported");
  EXPECT_EQ(apply("1"), "default/a ChangedAnnotations");
  EXPECT_EQ(apply("1"), "none reported");
  EXPECT_EQ(apply("7"), "none reported");
  EXPECT_EQ(apply("0"), "default/a none");
  EXPECT_EQ(apply("0"), "none reported");
  EXPECT_EQ(apply("1"), "default/a ChangedAnnotations");
}

TEST_F(LedgerTest, DriftNamesTheCardsThatCount) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300x2", "0,1"));
  const auto change = ledger.apply_pod(bound_claim("a", "n1", "30/300x2", "1,2"));
  ASSERT_TRUE(change);
  EXPECT_THAT(change->detail, testing::HasSubstr("c0 0,1"));
  EXPECT_EQ(change->node, NodeName("n1"));
  EXPECT_EQ(ledger.reader().drifting().front().claim.drift_detail, change->detail);
  EXPECT_EQ(ledger.reader().counts().drifting, 1u);
}

TEST_F(LedgerTest, DriftThatBindFoundIsReportedWithTheNextEvent) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  EXPECT_FALSE(ledger.apply_pod(bound_claim("a", "n1", "30/300", "1")));
  ledger.bound(id, at_ms(1));
  EXPECT_EQ(drift_text(ledger.apply_pod(bound_claim("a", "n1", "30/300", "1"))),
            "default/a ChangedAnnotations");
}

TEST_F(LedgerTest, RelistReportsDrift) {
  std::vector<Claim> listed;
  listed.push_back(bound_claim("a", "n1", "30/300", "0"));
  listed.push_back(test::blocking_claim("b", "n1"));
  const auto changes = ledger.replace_pods(std::move(listed));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(drift_text(changes[0]), "default/b BindingWithoutCards");
}

TEST_F(LedgerTest, RelistReportsALimitedNumberOfChanges) {
  std::vector<Claim> listed;
  for (std::size_t i = 0; i <= kDriftChangesMax; ++i)
    listed.push_back(test::blocking_claim("p" + std::to_string(i), "n1"));
  const Claim last = listed.back();
  EXPECT_EQ(ledger.replace_pods(std::move(listed)).size(), kDriftChangesMax);
  EXPECT_EQ(drift_text(ledger.apply_pod(last)), to_string(last.pod) + " BindingWithoutCards");
}

// --- relists -------------------------------------------------------------------------------------

TEST_F(LedgerTest, RelistReplacesBoundClaims) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  ledger.apply_pod(bound_claim("b", "n1", "20/200", "0"));
  std::vector<Claim> listed;
  listed.push_back(bound_claim("b", "n1", "20/200", "1"));
  listed.push_back(bound_claim("c", "n1", "10/100", "0"));
  ledger.replace_pods(std::move(listed));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0") << "b keeps its card";
  EXPECT_FALSE(ledger.reader().claim({"default", "a"}));
  EXPECT_EQ(ledger.reader().counts().bound, 2u);
}

TEST_F(LedgerTest, PodThatIsTwiceInARelistCountsOnce) {
  std::vector<Claim> listed;
  listed.push_back(bound_claim("a", "n1", "30/300", "0"));
  listed.push_back(bound_claim("a", "n1", "30/300", "1"));
  ledger.replace_pods(std::move(listed));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(LedgerTest, RelistOlderThanABindKeepsTheAssumedClaim) {
  const ClaimId id = assume_id(ledger, "a", "n1", "30/300");
  ledger.replace_pods({});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  ledger.bound(id, at_ms(1));
  ledger.replace_pods({});
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
}

TEST_F(LedgerTest, RelistConfirmsAssumedClaims) {
  assume_id(ledger, "a", "n1", "30/300");
  assume_id(ledger, "a", "n1", "30/300");
  std::vector<Claim> listed;
  listed.push_back(bound_claim("a", "n1", "30/300", "0"));
  ledger.replace_pods(std::move(listed));
  EXPECT_EQ(used_text(ledger, "n1"), "0=30/300 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(LedgerTest, RelistReplacesNodes) {
  std::vector<NodeFacts> listed;
  listed.push_back(facts_of("n2: 0[100/1000]"));
  listed.push_back(facts_of("n3: 0[100/1000]"));
  ledger.replace_nodes(std::move(listed));
  EXPECT_THAT(ledger.reader().node_names(), ElementsAre(NodeName("n2"), NodeName("n3")));
  EXPECT_EQ(ledger.reader().counts().nodes, 2u);
  EXPECT_EQ(ledger.reader().counts().cards, 2u);
}

TEST_F(LedgerTest, ViewShowsNodesAndEveryClaimOnThem) {
  ledger.apply_pod(bound_claim("a", "n1", "30/300", "0"));
  assume_id(ledger, "b", "n1", "20/200");
  ledger.reader().read(Instant{}, [](const View& view) {
    ASSERT_NE(view.find("n1"), nullptr);
    EXPECT_EQ(view.find("n1")->cards[0].used, (Share{Percent(50), MiB(500)}));
    EXPECT_EQ(view.find("n2"), nullptr);
    EXPECT_THAT(view.claims_on("n2"), IsEmpty());
    const auto claims = view.claims_on("n1");
    ASSERT_EQ(claims.size(), 2u);
    EXPECT_EQ(claims[0]->phase, Phase::kBound);
    EXPECT_EQ(test::text_of(claims[0]->holds), "0=30/300");
    EXPECT_EQ(claims[1]->phase, Phase::kAssumed);
  });
}

TEST_F(LedgerTest, NodeIsShownWithItsClaimsByPodName) {
  ledger.apply_pod(bound_claim("b", "n1", "30/300", "0"));
  ledger.apply_pod(bound_claim("a", "n1", "20/200", "1"));
  const auto view = ledger.reader().node(NodeName("n1"));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->problem, "");
  ASSERT_EQ(view->claims.size(), 2u);
  EXPECT_EQ(view->claims[0].claim.pod.name, "a");
  EXPECT_EQ(view->claims[1].claim.pod.name, "b");
  EXPECT_FALSE(ledger.reader().node(NodeName("n2")));
}

TEST_F(LedgerTest, PodIsFoundByNameBoundFirst) {
  assume_id(ledger, "a", "n1", "10/100");
  assume_id(ledger, "a", "n1", "20/200");
  EXPECT_EQ(test::text_of(ledger.reader().claim({"default", "a"})->holds), "0=20/200");
  Claim other = bound_claim("z", "n1", "30/300", "0");
  other.pod.name = "a";
  ledger.apply_pod(other);
  EXPECT_EQ(test::text_of(ledger.reader().claim({"default", "a"})->holds), "0=30/300");
  EXPECT_FALSE(ledger.reader().claim({"other", "a"}));
}

}  // namespace
}  // namespace mgpu::extender
