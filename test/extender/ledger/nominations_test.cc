#include "extender/ledger/nominations.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "extender/ledger/consumers.h"
#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/placement/reason.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::assume_text;
using test::at_ms;
using test::bound_claim;
using test::facts_of;
using test::request_of;
using test::share_of;
using test::unplaced_claim;

constexpr int kLife = 1'000;
constexpr int kPriority = 5;
constexpr int kTurn = static_cast<int>(kTurnLife.count());

struct NominationTest : testing::Test {
  NominationTest() {
    ledger.apply_node(facts_of("n1: 0[100/1000]"));
    ledger.apply_node(facts_of("n2: 0[100/1000]"));
  }

  // preempt answers the whole card of each node for "p".
  void offer(const std::vector<const char*>& nodes, const char* nominated = "") {
    std::vector<NominatedPlacement> placements;
    for (const char* node : nodes)
      placements.push_back({NodeName(node), {{CardIndex(0), share_of("100/1000")}}, {}});
    ledger.reservations().offer_nomination({PodUid("p"), kPriority}, std::move(placements),
                                           NodeName(nominated), at_ms(kLife));
  }
  static NominatedPlacement whole_card(const char* node) {
    return {NodeName(node), {{CardIndex(0), share_of("100/1000")}}, {}};
  }
  void nominate(const char* node) { ledger.reservations().nominate(PodUid("p"), NodeName(node)); }

  // "fits", or the reason why a pod of 30 % does not fit the node.
  std::string fit(const char* node, int priority = kPriority, const char* uid = "other",
                  int now = 0, const char* containers = "30/300") {
    const std::vector<std::string_view> nodes{node};
    const std::optional<Reason> reason =
        ledger.decisions()
            .why_not(nodes, request_of(containers), at_ms(now), {PodUid(uid), priority})
            .front();
    return reason ? std::string(sentence(*reason)) : "fits";
  }

  const std::string kept = std::string(sentence(Reason::kNominated));
  Ledger ledger;
};

// What a pod that cannot be changed may take (bind/start_sequence.h).
TEST_F(NominationTest, WhatIsKeptEverywhereIsFreeToThePodItselfAlone) {
  ledger.reservations().keep_everywhere(PodUid("p"), share_of("80/100"), at_ms(kLife));
  for (const char* node : {"n1", "n2"}) {
    EXPECT_EQ(fit(node), kept);
    EXPECT_EQ(fit(node, kPriority + 1), kept);
    EXPECT_EQ(fit(node, 0, "other", 0, "20/900"), "fits");
    EXPECT_EQ(fit(node, 0, "p"), "fits");
  }
  EXPECT_EQ(assume_text(ledger, "other", "n1", "30/300"), kept);
  ledger.reservations().keep_everywhere(PodUid("q"), share_of("10/100"), at_ms(2 * kLife));
  EXPECT_EQ(fit("n1", 0, "other", 0, "20/300"), kept);
  EXPECT_EQ(fit("n1", 0, "p", 0, "80/900"), "fits");
  const std::uint64_t releases = ledger.reader().releases();
  EXPECT_EQ(fit("n1", 0, "other", kLife), "fits");
  EXPECT_GT(ledger.reader().releases(), releases);
  EXPECT_EQ(fit("n1", 0, "other", kLife, "91/300"), kept);
  ledger.reservations().end_everywhere(PodUid("q"));
  EXPECT_EQ(fit("n1", 0, "other", kLife, "91/300"), "fits");
}

TEST_F(NominationTest, WhatIsKeptEverywhereEndsWithTheBindingOfThePod) {
  ledger.reservations().keep_everywhere(PodUid("p"), share_of("80/100"), at_ms(kLife));
  // The attempt of this process may fail because the earlier one succeeds elsewhere.
  EXPECT_EQ(assume_text(ledger, "p", "n1", "80/100"), "0");
  EXPECT_EQ(fit("n2"), kept);
  ledger.apply_pod(bound_claim("p", "n1", "80/100", "0"));
  EXPECT_EQ(fit("n2"), "fits");
}

// A whole card, and more pods than fit on a card.
TEST_F(NominationTest, NoMoreThanACardIsKeptOfIt) {
  for (const char* uid : {"p", "q", "r"}) {
    ledger.reservations().keep_everywhere(PodUid(uid), {kWholeCard, MiB(kCardMemoryMiBMax)},
                                          at_ms(kLife));
  }
  EXPECT_EQ(fit("n1"), kept);
  ledger.remove_pod(PodUid("p"));
  ledger.reservations().end_everywhere(PodUid("q"));
  EXPECT_EQ(fit("n1"), kept);
  ledger.reservations().end_everywhere(PodUid("r"));
  EXPECT_EQ(fit("n1"), "fits");
}

TEST_F(NominationTest, CountsOnTheNodeThatThePodIsNominatedFor) {
  offer({"n1", "n2"});
  EXPECT_EQ(fit("n1"), "fits");
  nominate("n2");
  EXPECT_EQ(fit("n1"), "fits");
  EXPECT_EQ(fit("n2"), kept);
  nominate("n1");
  EXPECT_EQ(fit("n1"), kept);
  EXPECT_EQ(fit("n2"), "fits");
  EXPECT_EQ(ledger.reader().counts().nominated, 1U);
}

TEST_F(NominationTest, DoesNotCountForAPodThatPreemptDidNotAnswer) {
  nominate("n1");
  EXPECT_EQ(fit("n1"), "fits");
  offer({"n2"});
  nominate("n1");
  EXPECT_EQ(fit("n1"), "fits");
}

TEST_F(NominationTest, CountsAtOnceWhereThePodIsNominatedForThatNodeAlready) {
  offer({"n1"}, "n1");
  EXPECT_EQ(fit("n1"), kept);
}

TEST_F(NominationTest, IsKeptFromOtherPodsOfEqualOrLowerPriority) {
  offer({"n1"});
  nominate("n1");
  EXPECT_EQ(fit("n1", kPriority - 1), kept);
  EXPECT_EQ(fit("n1", kPriority), kept);
  EXPECT_EQ(fit("n1", kPriority + 1), "fits");
  EXPECT_EQ(fit("n1", kPriority, "p"), "fits");
}

TEST_F(NominationTest, APodWithoutRoomHasItsOwnReason) {
  offer({"n1"});
  nominate("n1");
  ledger.apply_pod(bound_claim("full", "n1", "100/1000", "0"));
  EXPECT_EQ(fit("n1"), sentence(Reason::kCore));
}

TEST_F(NominationTest, AssumeAndScoresRespectIt) {
  offer({"n1"});
  nominate("n1");
  EXPECT_EQ(assume_text(ledger, "other", "n1", "30/300"), kept);
  EXPECT_EQ(assume_text(ledger, "other", "n1", "whole wholex2"),
            "node(s) had fewer cards than a container requests");
  const GpuRequest request = request_of("30/300");
  const PlacementContext context(request);
  const auto scores =
      ledger.decisions().score(std::vector<std::string_view>{"n1", "n2"}, context,
                               *find_policy("binpack"), at_ms(0), {PodUid("other"), kPriority});
  EXPECT_FALSE(scores[0].fits);
  EXPECT_TRUE(scores[1].fits);
}

TEST_F(NominationTest, DecisionsForOtherPodsAreNotCachedWithIt) {
  EXPECT_EQ(fit("n1"), "fits");
  offer({"n1"});
  nominate("n1");
  EXPECT_EQ(fit("n1"), kept);
  EXPECT_EQ(fit("n1", kPriority + 1), "fits");
  nominate("");
  EXPECT_EQ(fit("n1"), "fits");
}

// Pods of several containers are decided on without the ledger's lock.
TEST_F(NominationTest, SearchesWithoutTheLockRespectIt) {
  constexpr const char* kTwo = "10/100 20/200";
  EXPECT_EQ(fit("n1", kPriority, "other", 0, kTwo), "fits");
  offer({"n1"});
  nominate("n1");
  EXPECT_EQ(fit("n1", kPriority, "other", 0, kTwo), kept);
  EXPECT_EQ(fit("n1", kPriority, "p", 0, kTwo), "fits");
  EXPECT_EQ(fit("n1", kPriority + 1, "other", 0, kTwo), "fits");
  EXPECT_EQ(fit("n1", kPriority, "other", 0, kTwo), kept);
  EXPECT_EQ(fit("n2", kPriority, "other", 0, kTwo), "fits");
  EXPECT_EQ(fit("n1", kPriority, "other", 0, "60/600 60/600"),
            sentence(Reason::kContainersTooLarge));
  EXPECT_EQ(fit("n1", kPriority, "other", kLife, kTwo), "fits");
}

TEST_F(NominationTest, ACopyForAPodHasTheReservationsOfOthersUsed) {
  offer({"n1"});
  nominate("n1");
  const auto used = [&](const char* uid) {
    return ledger.reader().node_for("n1", {PodUid(uid), kPriority})->available().cards[0].used;
  };
  EXPECT_EQ(used("other"), share_of("100/1000"));
  EXPECT_EQ(used("p"), Share{});
  EXPECT_FALSE(ledger.reader().node_for("n3", {PodUid("p"), kPriority}));
}

TEST(Nominations, EndAndCountAsReleases) {
  const struct {
    const char* what;
    std::function<void(Ledger&)> end;
  } cases[] = {
      {"nominated for no node",
       [](Ledger& l) { l.reservations().nominate(PodUid("p"), NodeName()); }},
      {"not in a new list", [](Ledger& l) { l.reservations().replace_nominated({}); }},
      {"in a new list with another node",
       [](Ledger& l) {
         l.reservations().replace_nominated({{PodUid("p"), NodeName("n2")}});
       }},
      {"assumed elsewhere", [](Ledger& l) { assume_text(l, "p", "n2", "whole"); }},
      {"bound", [](Ledger& l) { l.apply_pod(bound_claim("p", "n2", "whole", "0")); }},
      {"finished or deleted", [](Ledger& l) { l.remove_pod(PodUid("p")); }},
      {"another answer of preempt",
       [](Ledger& l) {
         l.reservations().offer_nomination({PodUid("p"), kPriority}, {}, {}, at_ms(kLife));
       }},
      {"a smaller card", [](Ledger& l) { l.apply_node(facts_of("n1: 0[100/500]")); }},
      {"another card", [](Ledger& l) { l.apply_node(facts_of("n1: 1[100/1000]")); }},
      {"an unhealthy card", [](Ledger& l) { l.apply_node(facts_of("n1: 0[100/1000 unhealthy]")); }},
      {"no node", [](Ledger& l) { l.replace_nodes({}); }},
      {"too old", [](Ledger& l) { l.reader().releases(at_ms(kLife)); }},
  };
  for (const auto& one : cases) {
    Ledger fresh;
    fresh.apply_node(facts_of("n1: 0[100/1000]"));
    fresh.apply_node(facts_of("n2: 0[100/1000]"));
    fresh.reservations().offer_nomination(
        {PodUid("p"), kPriority}, {{NodeName("n1"), {{CardIndex(0), share_of("100/1000")}}, {}}},
        {}, at_ms(kLife));
    fresh.reservations().nominate(PodUid("p"), NodeName("n1"));
    const std::vector<std::string_view> nodes{"n1"};
    fresh.decisions().why_not(nodes, request_of("30/300"), at_ms(0), {PodUid("other"), kPriority});
    const std::uint64_t before = fresh.reader().releases();
    one.end(fresh);
    EXPECT_EQ(fresh.reader().counts().nominated, 0U) << one.what;
    EXPECT_GT(fresh.reader().releases(), before) << one.what;
  }
}

// The pod is tied to the node by its volume, and is not answered again.
TEST_F(NominationTest, StaysWhileItsCardsAreUsableWhateverElseChangesOnTheNode) {
  offer({"n1"});
  nominate("n1");
  for (const char* now :
       {"n1: 0[100/1000] 1[10/100]", "n1: 0[100/1000] 1[10/100 unhealthy]", "n1: 0[100/1000]"}) {
    ledger.apply_node(facts_of(now));
    EXPECT_EQ(fit("n1"), kept) << now;
  }
}

TEST_F(NominationTest, EndsAtItsTimeAndNotBefore) {
  offer({"n1"});
  nominate("n1");
  EXPECT_EQ(fit("n1", kPriority, "other", kLife - 1), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", kLife), "fits");
}

TEST_F(NominationTest, ARefusedAttemptToBindDoesNotEndIt) {
  offer({"n1"});
  nominate("n1");
  ledger.apply_pod(bound_claim("victim", "n1", "100/1000", "0"));
  EXPECT_EQ(assume_text(ledger, "p", "n1", "whole"), sentence(Reason::kCore));
  ledger.remove_pod(PodUid("victim"));
  EXPECT_EQ(fit("n1"), kept);
}

TEST_F(NominationTest, ANodeThatIsRemovedHasNone) {
  offer({"n1"});
  nominate("n1");
  ledger.remove_node(NodeName("n1"));
  ledger.apply_node(facts_of("n1: 0[100/1000]"));
  EXPECT_EQ(fit("n1"), "fits");
}

TEST_F(NominationTest, AtTheLimitTheFirstToEndIsRemoved) {
  for (std::size_t i = 0; i <= kNominationsMax; ++i) {
    const PodUid uid("p" + std::to_string(i));
    ledger.reservations().offer_nomination({uid, kPriority}, {{NodeName("n1"), {}, {}}},
                                           NodeName("n1"), at_ms(kLife + static_cast<int>(i)));
  }
  EXPECT_EQ(ledger.reader().counts().nominated, kNominationsMax);
  ledger.reader().releases(at_ms(kLife));
  EXPECT_EQ(ledger.reader().counts().nominated, kNominationsMax) << "the first had been removed";
}

TEST_F(NominationTest, FollowsTheWatchOfNominatedPods) {
  std::vector<std::string> seen;
  kube::ObjectEvents<kube::Pod> events(nomination_consumer(
      ledger.reservations(),
      {.on_nominated = [&](const kube::Pod& pod) { seen.push_back(pod.nominated_node); },
       .on_ended = [&](const PodUid& uid) { seen.push_back("end of " + uid.str()); }}));
  const auto pod = [](const char* node, const char* phase = "Pending") {
    return std::string(R"({"metadata":{"name":"p","uid":"p"},"status":{"nominatedNodeName":")") +
           node + R"(","phase":")" + phase + "\"}}";
  };
  offer({"n1", "n2"});
  using Change = kube::WatchEvent::Kind;
  events.on_event({Change::kApply, pod("n1")});
  EXPECT_EQ(fit("n1"), kept);
  events.on_event({Change::kApply, pod("n2")});
  EXPECT_EQ(fit("n1"), "fits");
  EXPECT_EQ(fit("n2"), kept);
  events.on_event({Change::kApply, pod("n2", "Failed")});
  EXPECT_EQ(fit("n2"), "fits");
  events.on_event({Change::kApply, pod("n2")});
  events.on_event({Change::kDelete, pod("n2")});
  EXPECT_EQ(fit("n2"), "fits");
  EXPECT_EQ(seen, (std::vector<std::string>{"n1", "n2", "n2", "n2", "end of p"}));
}

// --- pods that wait between filter and bind
// -------------------------------------------------------

struct ReservationTest : NominationTest {
  // filter answers the whole card of n1 for "p".
  void reserve(std::optional<Instant> counted_until = {}, const char* nominated = "") {
    ledger.reservations().reserve({PodUid("p"), kPriority}, whole_card("n1"), NodeName(nominated),
                                  at_ms(kLife), counted_until);
  }
};

TEST_F(ReservationTest, CountsOnceThePodIsNominatedForTheNode) {
  reserve();
  EXPECT_EQ(fit("n1"), "fits") << "most pods are bound at once";
  nominate("n1");
  EXPECT_EQ(fit("n1"), kept);
  EXPECT_EQ(assume_text(ledger, "other", "n1", "30/300"), kept);
  EXPECT_EQ(fit("n1", kPriority + 1), "fits");
  EXPECT_EQ(assume_text(ledger, "p", "n1", "whole"), "0");
}

TEST_F(ReservationTest, ThatCountsAtOnceDoesSoForAMoment) {
  reserve(at_ms(10));
  EXPECT_EQ(fit("n1", kPriority, "other", 9), kept);
  const std::uint64_t before = ledger.reader().releases();
  EXPECT_EQ(fit("n1", kPriority, "other", 10), "fits");
  EXPECT_EQ(ledger.reader().releases(), before + 1) << "pods may wait for it";
  nominate("n1");
  EXPECT_EQ(fit("n1", kPriority, "other", kLife - 1), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", kLife), "fits");
}

TEST_F(ReservationTest, ThatCountsAtOnceGoesOnWhereThePodIsNominatedInTime) {
  reserve(at_ms(10));
  nominate("n1");
  EXPECT_EQ(fit("n1", kPriority, "other", kLife - 1), kept);
  reserve(at_ms(10), "n1");
  EXPECT_EQ(fit("n1", kPriority, "other", kLife - 1), kept) << "filtered again, and nominated";
}

TEST_F(ReservationTest, GoesOnWhereTheWatchHasShownTheNominationBeforeKubeScheduler) {
  offer({"n1", "n2"});
  nominate("n1");
  reserve(at_ms(10));
  EXPECT_EQ(fit("n1", kPriority, "other", kLife - 1), kept);
}

TEST_F(ReservationTest, ThatCountsAtOnceIsNotProlongedByTheNextFilter) {
  reserve(at_ms(10));
  reserve(at_ms(20));
  EXPECT_EQ(fit("n1", kPriority, "other", 19), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 20), "fits");
}

TEST_F(ReservationTest, TheSameCardsDoNotBecomeFree) {
  reserve({}, "n1");
  const std::uint64_t before = ledger.reader().releases();
  reserve({}, "n1");
  EXPECT_EQ(assume_text(ledger, "p", "n1", "whole"), "0");
  EXPECT_EQ(ledger.reader().releases(), before);
  EXPECT_EQ(ledger.reader().counts().nominated, 0U);
}

// Pods are to be evicted for "p".
TEST_F(ReservationTest, OfAPreemptorIsAReleaseUnlessThePodGetsTheCards) {
  const auto reserve_for_it = [&] {
    ledger.reservations().reserve({.uid = PodUid("p"), .priority = kPriority, .for_group = true},
                                  whole_card("n1"), NodeName(), at_ms(kLife), at_ms(10));
  };
  reserve(at_ms(10));
  reserve_for_it();
  reserve(at_ms(10));
  const std::uint64_t before = ledger.reader().releases(at_ms(9));
  EXPECT_EQ(ledger.reader().releases(at_ms(10)), before + 1);
  reserve_for_it();
  ledger.reservations().offer_nomination({PodUid("p"), kPriority}, {}, {}, at_ms(kLife));
  EXPECT_EQ(ledger.reader().releases(at_ms(10)), before + 2) << "no pod could be evicted";
  reserve_for_it();
  EXPECT_EQ(assume_text(ledger, "p", "n1", "whole"), "0");
  EXPECT_EQ(ledger.reader().releases(at_ms(10)), before + 2);
}

TEST_F(ReservationTest, OtherCardsBecomeFree) {
  reserve({}, "n1");
  EXPECT_EQ(fit("n1"), kept);
  const std::uint64_t before = ledger.reader().releases();
  EXPECT_EQ(assume_text(ledger, "p", "n1", "30/300"), "0");
  EXPECT_EQ(ledger.reader().releases(), before + 1);
}

TEST_F(ReservationTest, AtTheLimitPodsThatAreNotNominatedAreRemovedFirst) {
  offer({"n2"}, "n2");
  for (std::size_t i = 0; i <= kNominationsMax; ++i) {
    ledger.reservations().reserve({PodUid("q" + std::to_string(i)), kPriority + 1},
                                  whole_card("n1"), {}, at_ms(2 * kLife), {});
  }
  EXPECT_EQ(fit("n2"), kept);
  EXPECT_EQ(ledger.reader().counts().nominated, 1U);
}

TEST_F(ReservationTest, AtTheLimitTheLeastImportantPodsAreRemovedFirst) {
  offer({"n2"}, "n2");
  for (std::size_t i = 0; i <= kNominationsMax; ++i) {
    ledger.reservations().reserve({PodUid("q" + std::to_string(i)), kPriority - 1},
                                  whole_card("n1"), NodeName("n1"), at_ms(2 * kLife), {});
  }
  EXPECT_EQ(fit("n2"), kept);
  EXPECT_EQ(ledger.reader().counts().nominated, kNominationsMax);
}

// Members of the group "g", each of which filter has answered with the whole card of one node.
struct GroupTest : NominationTest {
  void answer(const char* uid, const char* node, int now, int priority = kPriority,
              const std::string& name_space = "team") {
    ledger.reservations().reserve({PodUid(uid), priority, name_space, name_space + "/g"},
                                  {NodeName(node), {{CardIndex(0), share_of("100/1000")}}, {}},
                                  NodeName(), at_ms(1'000'000), at_ms(now + 1'000));
  }
  ClaimId assume(const char* uid, const char* node, const std::string& group, int now = 0) {
    Claim claim = bound_claim(uid, node, "whole", "0");
    claim.placement.reset();
    claim.group = group;
    claim.priority = kPriority;
    const auto assumed = ledger.assume(std::move(claim), *find_policy("binpack")->card, at_ms(now));
    return std::get<Assumed>(assumed).id;
  }
  std::string fit_member(const char* node, int priority, int now, const std::string& group,
                         const char* containers = "30/300") {
    const std::vector<std::string_view> nodes{node};
    const auto reason = ledger.decisions()
                            .why_not(nodes, request_of(containers), at_ms(now),
                                     {PodUid("member"), priority, "team", group})
                            .front();
    return reason ? std::string(sentence(*reason)) : "fits";
  }
};

TEST_F(GroupTest, TheCardsOfAMemberAreKeptFromMembersOfEveryPriority) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit_member("n1", kPriority + 1, 0, "team/g"), kept);
  EXPECT_EQ(fit_member("n1", kPriority + 1, 0, "team/other"), "fits");
  EXPECT_EQ(fit_member("n1", kPriority + 1, 0, ""), "fits");
  EXPECT_EQ(fit_member("n1", kPriority, 0, ""), kept);
}

TEST_F(GroupTest, TheyAreKeptWhileFilterIsAskedAboutTheNextMembers) {
  answer("a", "n1", 0);
  answer("b", "n2", 900);
  EXPECT_EQ(fit("n1", kPriority, "other", 1'500), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 1'900), "fits")
      << "no member was asked about for a second";
}

TEST_F(GroupTest, TheyAreKeptWhileOtherMembersAreBound) {
  answer("a", "n1", 0);
  answer("b", "n2", 0);
  assume("b", "n2", "team/g", 900);
  EXPECT_EQ(fit("n1", kPriority, "other", 60'800), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 60'900), "fits") << "none was bound for a minute";
}

// After a start it is not known which cards the members were answered.
TEST_F(GroupTest, AllCardsAreKeptForAGroupThatWasBoundInPart) {
  ledger.reservations().keep_everywhere(PodUid("b"), share_of("60/100"), at_ms(kLife), "team/g");
  ledger.reservations().keep_everywhere(PodUid("c"), share_of("30/100"), at_ms(kLife), "team/g");
  EXPECT_EQ(fit("n1"), "fits") << "no member is bound";
  Claim a = bound_claim("a", "n2", "10/100", "0");
  a.group = "team/g";
  ledger.replace_pods({a});
  EXPECT_EQ(fit("n1"), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 0, "10/100"), "fits");
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/g"), "fits");
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/other"), kept);
  ledger.reservations().keep_everywhere(PodUid("e"), share_of("10/100"), at_ms(kLife),
                                        "team/other");
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/other"), kept);
  Claim d = bound_claim("d", "n2", "10/100", "0");
  d.group = "team/other";
  ledger.replace_pods({a, d});
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/other"), "fits") << "both come before all others";
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/g"), "fits");
  ledger.reservations().end_everywhere(PodUid("e"));
  const std::uint64_t before = ledger.reader().releases();
  answer("b", "n2", 0);
  EXPECT_GT(ledger.reader().releases(), before);
  EXPECT_EQ(fit("n1"), "fits") << "what is kept for b is on n2";
  EXPECT_EQ(fit("n1", kPriority, "other", 0, "80/100"), kept) << "c was not answered";
  ledger.reservations().end_kept_for_group(PodUid("c"));
  EXPECT_EQ(fit("n1", kPriority, "other", 0, "80/100"), "fits") << "filter has refused c";
}

// The others may be bound already: kube-scheduler tries this one again for ever.
TEST_F(GroupTest, TheCardsOfAMemberWhoseBindHasFailedAreKeptForItsNextTry) {
  ledger.forget_for_now(assume("a", "n1", ""), at_ms(0));
  EXPECT_EQ(fit("n1"), "fits") << "a pod that is bound alone keeps nothing from others";
  ledger.forget_for_now(assume("a", "n1", "team/g"), at_ms(0));
  const int end = static_cast<int>(kGroupRetryLife.count());
  EXPECT_EQ(fit("n1", kPriority, "other", end - 1), kept);
  EXPECT_EQ(fit("n1", kPriority, "a", end - 1), "fits");
  EXPECT_EQ(fit("n1", kPriority, "other", end), "fits");
}

// A tenant can make each bind fail. The time counts from the first one, and then anew.
TEST_F(GroupTest, BindsThatFailAgainAndAgainKeepThemForABoundedTime) {
  const int end = static_cast<int>(kGroupRetriesLife.count());
  for (int now = 0; now < end; now += 10'000) {
    answer("a", "n1", now);
    ledger.forget_for_now(assume("a", "n1", "team/g", now), at_ms(now));
    EXPECT_EQ(fit("n1", kPriority, "other", now + 5'000), kept) << now;
  }
  EXPECT_EQ(fit("n1", kPriority, "other", end), "fits") << "a minute after the last one is later";
  answer("a", "n1", end);
  ledger.forget_for_now(assume("a", "n1", "team/g", end), at_ms(end));
  EXPECT_EQ(fit("n1", kPriority, "other", end + 1), kept);
}

// Its outcome may be unknown for as long as the API server does not answer.
TEST_F(GroupTest, ALongBindIsNoPartOfThatTime) {
  const int end = static_cast<int>(kGroupRetriesLife.count());
  ledger.forget_for_now(assume("a", "n1", "team/g"), at_ms(0));
  for (int now = 50'000; now < end; now += 50'000)
    ledger.forget_for_now(assume("a", "n1", "team/g", now), at_ms(now));
  const ClaimId last = assume("a", "n1", "team/g", end - 10);
  ledger.forget_for_now(last, at_ms(2 * end));
  EXPECT_EQ(fit("n1", kPriority, "other", 2 * end + 9), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 2 * end + 10), "fits");
}

// It waits for its volume, and its first bind may fail, too.
TEST_F(GroupTest, ThatTimeDoesNotBeginForAMemberThatIsNominated) {
  const int end = static_cast<int>(kGroupRetriesLife.count());
  answer("a", "n1", 0);
  ledger.reservations().nominate(PodUid("a"), NodeName("n1"));
  ledger.reservations().keep_group("team/g", at_ms(0));
  ledger.forget_for_now(assume("a", "n1", "team/g", end + 1), at_ms(end + 1));
  EXPECT_EQ(fit("n1", kPriority, "other", end + 2), kept);
}

// The next bind begins before what is kept after a failed one ends.
TEST_F(GroupTest, ABindOfAnotherProlongsWhatIsKeptAfterAFailedOne) {
  ledger.forget_for_now(assume("a", "n1", "team/g"), at_ms(0));
  ledger.reservations().keep_group("team/g", at_ms(50'000));
  EXPECT_EQ(fit("n1", kPriority, "other", 109'999), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 110'000), "fits");
}

// So that new members whose binds fail do not prolong what is kept for others.
TEST_F(GroupTest, BindsOfOthersProlongWhatIsKeptForABoundedTime) {
  const int end = static_cast<int>(kGroupRetriesLife.count());
  answer("a", "n1", 0);
  for (int now = 0; now < end; now += 10'000)
    ledger.reservations().keep_group("team/g", at_ms(now));
  EXPECT_EQ(fit("n1", kPriority, "other", end - 1), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", end), "fits");
}

TEST_F(GroupTest, TheSameAnswerOnceMoreReleasesNothing) {
  answer("a", "n1", 0);
  const std::uint64_t before = ledger.reader().releases(at_ms(0));
  answer("a", "n1", 500);
  EXPECT_EQ(ledger.reader().releases(at_ms(500)), before) << "no pod is tried again";
  EXPECT_EQ(fit("n1", kPriority, "other", 500), kept);
  answer("a", "n1", 600);
  EXPECT_EQ(ledger.reader().releases(at_ms(600)), before);
  answer("a", "n2", 700);
  EXPECT_EQ(ledger.reader().releases(at_ms(700)), before + 1) << "a pod waits for n1";
}

// kube-scheduler asks about the members of a group again and again.
TEST_F(GroupTest, AGroupThatDoesNotFitWakesOnlyPodsThatWaitForItsCards) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit_member("n1", kPriority, 0, "team/g"), kept);
  EXPECT_EQ(fit("n1", kPriority, "large", 0, "30/1001"), sentence(Reason::kCardsTooSmall));
  const std::uint64_t before = ledger.reader().releases(at_ms(0));
  EXPECT_EQ(ledger.reader().releases(at_ms(2'000)), before);
  answer("a", "n1", 3'000);
  EXPECT_EQ(fit("n1", kPriority, "small", 3'500), kept);
  EXPECT_EQ(ledger.reader().releases(at_ms(5'000)), before + 1);
}

// kube-scheduler tries such a group again as often as the pod, and always before it.
TEST_F(GroupTest, APodThatWaitedForAGroupComesFirstWhereTheGroupWasNotBound) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority - 1, "large", 500, "80/800"), kept);
  EXPECT_EQ(fit("n1", kPriority - 1, "later", 600), kept);
  EXPECT_EQ(fit("n1", kPriority - 1, "later", 1'100), kept) << "the first one has its turn";
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/g"), kept);
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/other"), kept);
  EXPECT_EQ(fit("n1", kPriority, "important", 1'200), "fits") << "its priority is higher";
  EXPECT_EQ(fit("n1", kPriority - 1, "large", 10'500, "80/800"), "fits");
  ledger.reservations().reserve({PodUid("large"), kPriority - 1, "team"}, whole_card("n1"),
                                NodeName(), at_ms(600'000), {});
  EXPECT_EQ(fit("n1", kPriority - 1, "later", 10'500), kept) << "it is about to be bound";
  EXPECT_NE(assume_text(ledger, "large", "n1", "30/300"), kept);
  EXPECT_EQ(fit("n1", kPriority - 1, "later", 10'500), "fits");
}

// The watch tells of it after the answer, of which kube-scheduler may be about to make a
// nomination.
TEST_F(ReservationTest, AnOlderNominationDoesNotEndWhatCountsAtOnce) {
  for (const char* const node : {"", "n2"}) {
    reserve(at_ms(10));
    nominate(node);
    EXPECT_EQ(fit("n1", kPriority, "other", 9), kept) << node;
  }
  EXPECT_EQ(fit("n1", kPriority, "other", 10), "fits");
}

TEST_F(GroupTest, TheyAreKeptOnceABindHasBegun) {
  answer("a", "n1", 0);
  ledger.reservations().keep_group("team/g", at_ms(900));
  EXPECT_EQ(fit("n1", kPriority, "other", 60'800), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 60'900), "fits");
  answer("a", "n1", 70'000);
  ledger.reservations().keep_group("team/g", at_ms(71'000));
  EXPECT_EQ(fit("n1", kPriority, "other", 71'000), "fits") << "they were free before";
}

// kube-scheduler may be about to bind what filter has answered since the pods were read.
TEST_F(GroupTest, PreemptionLeavesWhatFilterHasAnsweredMeanwhile) {
  std::uint64_t answers = ledger.reservations().answers();
  const auto preempt = [&] {
    const auto reserved = ledger.reservations().reserve_all(
        {{{PodUid("a"), kPriority, "team", "team/g"}, whole_card("n2")},
         {{PodUid("b"), kPriority, "team", "team/g"}, whole_card("n2")}},
        answers, at_ms(kLife), at_ms(kLife));
    answers = reserved.value_or(answers);
    return reserved.has_value();
  };
  answer("a", "n1", 0);
  EXPECT_FALSE(preempt());
  EXPECT_EQ(fit("n1", kPriority, "other", 1), kept);
  EXPECT_EQ(fit("n2", kPriority, "other", 1), "fits") << "nothing is reserved for b";
  answers = ledger.reservations().answers();
  EXPECT_TRUE(preempt());
  EXPECT_TRUE(preempt()) << "its own answers are no reason";
  EXPECT_EQ(fit("n1", kPriority, "other", 1), "fits");
  EXPECT_EQ(fit("n2", kPriority, "other", 1), kept);
}

TEST_F(GroupTest, APodThatIsBoundOrDeletedMeanwhileHasNoTurn) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "small", 500), kept);
  ledger.apply_pod(bound_claim("small", "n2", "30/300", "0"));
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/g"), "fits");
  answer("a", "n1", 2'000);
  EXPECT_EQ(fit("n1", kPriority, "deleted", 2'500), kept);
  ledger.reservations().end_nomination(PodUid("deleted"));
  EXPECT_EQ(fit_member("n1", kPriority, 3'200, "team/g"), "fits");
}

// It may have to wait there for a volume.
TEST_F(GroupTest, APodThatWasAnsweredAnotherNodeMeanwhileHasNoTurn) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "small", 500), kept);
  ledger.reservations().reserve({PodUid("small"), kPriority, "team"}, whole_card("n2"), NodeName(),
                                at_ms(600'000), {});
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/g"), "fits");
  ledger.reservations().nominate(PodUid("small"), NodeName("n2"));
  EXPECT_EQ(fit("n2", kPriority, "other", 1'300), kept);
}

TEST_F(GroupTest, APodWithAnOldAnswerHasItsTurn) {
  ledger.reservations().reserve({PodUid("large"), kPriority, "team"}, whole_card("n2"), NodeName(),
                                at_ms(600'000), {});
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "large", 500, "80/800"), kept);
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/g"), kept);
  EXPECT_EQ(fit("n1", kPriority, "large", 1'200, "80/800"), "fits");
}

TEST_F(GroupTest, ThatEndsWhereThePodDoesNotComeAndDelaysNoBind) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "large", 500, "80/800"), kept);
  Claim a = unplaced_claim("a", "n1", "30/300");
  a.group = "team/g";
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/g"), kept);
  const auto assumed = ledger.assume(a, *find_policy("binpack")->card, at_ms(1'200));
  ASSERT_TRUE(std::holds_alternative<Assumed>(assumed)) << "filter has answered it before";
  ledger.forget(std::get<Assumed>(assumed).id);
  const std::uint64_t before = ledger.reader().releases(at_ms(1'200));
  const int end = 1'000 + kTurn;
  EXPECT_EQ(fit("n1", kPriority, "other", end - 1), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", end + 300), "fits");
  EXPECT_GT(ledger.reader().releases(at_ms(end + 300)), before) << "other pods wait for its end";
}

// It may need the cards of several members.
TEST_F(GroupTest, ThePodHasAllCardsOfTheNodeForWhichItWaited) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  answer("a", "n3", 0);
  ledger.reservations().reserve({PodUid("b"), kPriority, "team", "team/g"},
                                {NodeName("n3"), {{CardIndex(1), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000));
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole whole"), kept);
  EXPECT_EQ(fit_member("n3", kPriority, 1'200, "team/g"), kept);
  EXPECT_EQ(fit("n3", kPriority, "large", 1'200, "whole whole"), "fits");
}

TEST_F(GroupTest, ItKeepsAllThatItNeeds) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  answer("a", "n3", 0);
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole whole"), kept);
  EXPECT_EQ(fit("n3", kPriority, "other", 900), "fits") << "on card 1";
  EXPECT_EQ(fit("n3", kPriority, "other", 1'200), kept);
  EXPECT_EQ(fit("n3", kPriority, "large", 1'200, "whole whole"), "fits");
}

// Otherwise its group may be bound in part.
TEST_F(GroupTest, ATurnDelaysNoMemberThatHasCardsOnTheNode) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  ledger.reservations().reserve({PodUid("a"), kPriority, "team", "team/other"},
                                {NodeName("n3"), {{CardIndex(1), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000));
  answer("member", "n3", 0);
  ledger.reservations().keep_group("team/g", at_ms(500));
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole whole"), kept);
  EXPECT_EQ(fit_member("n3", kPriority, 1'200, "team/g", "whole"), "fits");
  EXPECT_EQ(fit_member("n3", kPriority, 61'000, "team/g", "whole"), kept) << "it has none";
}

// It would not fit in a turn that kept cards which they have.
TEST_F(GroupTest, ATurnLeavesPodsOfNoGroupTheirCards) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  ledger.reservations().reserve({PodUid("p"), kPriority, "team"},
                                {NodeName("n3"), {{CardIndex(0), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000'000));
  ledger.reservations().reserve({PodUid("a"), kPriority, "team", "team/g"},
                                {NodeName("n3"), {{CardIndex(1), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000));
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole"), kept);
  EXPECT_EQ(fit_member("n3", kPriority, 1'200, "team/other", "whole"), kept);
  EXPECT_EQ(fit("n3", kPriority, "large", 1'200, "whole"), "fits");
}

// Otherwise a tenant ends all turns by making its pods again.
TEST_F(GroupTest, APodHasItsTurnWhereTheMemberIsDeleted) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "small", 500), kept);
  ledger.reservations().end_nomination(PodUid("a"));
  EXPECT_EQ(fit_member("n1", kPriority, 600, "team/other", "whole"), kept);
  EXPECT_EQ(fit("n1", kPriority, "small", 600), "fits");
}

// Others may take smaller shares of the same cards than the group had.
TEST_F(GroupTest, ATurnKeepsWhatThePodNeedsAndNoMore) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "large", 500, "80/800"), kept);
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/other"), kept) << "it needs 30 %";
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/other", "20/200"), "fits");
  EXPECT_EQ(fit("n1", kPriority, "large", 1'200, "80/800"), "fits");
}

TEST_F(GroupTest, ATurnKeepsItWhereTheGroupHadLess) {
  ledger.reservations().reserve({PodUid("a"), kPriority, "team", "team/g"},
                                {NodeName("n1"), {{CardIndex(0), share_of("30/300")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000));
  EXPECT_EQ(fit("n1", kPriority, "large", 500, "80/800"), kept);
  EXPECT_EQ(fit_member("n1", kPriority, 1'200, "team/other"), kept);
  EXPECT_EQ(fit("n1", kPriority, "large", 1'200, "80/800"), "fits");
}

// As a pod in Permit is when another one of its group does not fit.
TEST_F(GroupTest, APodHasItsTurnWhereTheMemberIsNominatedNoMore) {
  answer("a", "n1", 0);
  ledger.reservations().nominate(PodUid("a"), NodeName("n1"));
  EXPECT_EQ(fit("n1", kPriority, "small", 5'000), kept);
  ledger.reservations().nominate(PodUid("a"), NodeName());
  EXPECT_EQ(fit_member("n1", kPriority, 10'000, "team/other", "whole"), kept);
  EXPECT_EQ(fit("n1", kPriority, "small", 10'000), "fits");
}

TEST_F(GroupTest, APodHasItsTurnWhereTheMemberIsAnsweredOtherCards) {
  answer("a", "n1", 0);
  EXPECT_EQ(fit("n1", kPriority, "small", 500), kept);
  answer("a", "n2", 600);
  EXPECT_EQ(fit_member("n1", kPriority, 700, "team/other", "whole"), kept);
}

// A group that waits in Permit keeps its cards for longer than a turn.
TEST_F(GroupTest, ATurnLastsAsLongAsItsPodWaitsForAnotherGroupOnTheNode) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  answer("a", "n3", 0);
  ledger.reservations().reserve({PodUid("b"), kPriority, "team", "team/other"},
                                {NodeName("n3"), {{CardIndex(1), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(50'000));
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole whole"), kept);
  for (int now = 10'000; now < 50'000; now += 10'000)
    EXPECT_EQ(fit_member("n3", kPriority, now, "team/g"), kept) << now;
  EXPECT_EQ(fit("n3", kPriority, "large", 60'000, "whole whole"), "fits");
  EXPECT_EQ(fit_member("n3", kPriority, 50'000 + 2 * kTurn, "team/g"), "fits");
}

TEST_F(GroupTest, OtherGroupsProlongATurnForABoundedTime) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  answer("a", "n3", 0);
  ledger.reservations().reserve({PodUid("b"), kPriority, "team", "team/other"},
                                {NodeName("n3"), {{CardIndex(1), share_of("100/1000")}}, {}},
                                NodeName(), at_ms(1'000'000), at_ms(1'000'000));
  EXPECT_EQ(fit("n3", kPriority, "large", 500, "whole whole"), kept);
  const int end = 1'000 + static_cast<int>(kTurnsLife.count());
  for (int now = 1'000; now < end; now += 10'000)
    EXPECT_EQ(fit_member("n3", kPriority, now, "team/g"), kept) << now;
  EXPECT_EQ(fit_member("n3", kPriority, end, "team/g"), "fits");
}

// Otherwise both would keep cards from each other.
TEST_F(GroupTest, ANodeHasOneTurnAtATime) {
  ledger.apply_node(facts_of("n3: 0[100/1000] 1[100/1000]"));
  answer("a", "n3", 0);
  EXPECT_EQ(fit("n3", kPriority, "first", 500, "whole whole"), kept);
  EXPECT_EQ(fit("n3", kPriority, "second", 1'200, "whole whole"), kept);
  EXPECT_EQ(fit("n3", kPriority, "third", 1'300, "whole whole"), kept);
  const int end = 1'200 + kTurn;
  EXPECT_EQ(fit("n3", kPriority, "first", end, "whole whole"), kept) << "it did not come";
  EXPECT_EQ(fit_member("n3", kPriority, end, "team/g"), kept);
  EXPECT_EQ(fit("n3", kPriority, "second", end, "whole whole"), "fits");
}

TEST_F(GroupTest, NoGroupKeepsThemLongerThanTheBound) {
  answer("a", "n1", 0);
  for (int now = 500; now <= 40'000; now += 500) answer("b", "n2", now);
  EXPECT_EQ(fit("n2", kPriority, "other", 40'500), kept);
  EXPECT_EQ(fit("n1", kPriority, "other", 40'500), "fits");
}

TEST_F(GroupTest, ANamespaceEndsNoReservationsOfOthers) {
  answer("a", "n1", 0, kPriority, "other-team");
  for (std::size_t i = 0; i < 2 * kNominationsMax; ++i)
    answer(("p" + std::to_string(i)).c_str(), "n2", 0, kPriority + 1);
  EXPECT_EQ(ledger.reader().counts().nominated, kNominationsOfNamespaceMax + 1);
  EXPECT_EQ(fit("n1"), kept);
}

}  // namespace
}  // namespace mgpu::extender
