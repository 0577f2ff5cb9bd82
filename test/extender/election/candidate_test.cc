#include "extender/election/candidate.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

using std::chrono::seconds;

kube::Lease held_by(const std::string& holder, const std::string& renewed, int duration_s = 15) {
  kube::Lease lease;
  lease.ref = {"kube-system", "mgpu-extender"};
  lease.resource_version = "7";
  lease.holder = holder;
  lease.duration_s = duration_s;
  lease.renew_time = renewed;
  lease.transitions = 3;
  return lease;
}

Instant at(int second) {
  return Instant(seconds(second));
}

TEST(LeaseCandidate, TakesNothingBeforeItHasReadTheLease) {
  EXPECT_FALSE(LeaseCandidate("a", {}).may_take(at(1'000)));
}

TEST(LeaseCandidate, TakesALeaseThatDoesNotExistOrThatNobodyHoldsAtOnce) {
  LeaseCandidate absent("a", {});
  absent.observe(std::nullopt, at(0));
  EXPECT_TRUE(absent.may_take(at(0)));
  LeaseCandidate given_up("a", {});
  given_up.observe(held_by("", "1"), at(0));
  EXPECT_TRUE(given_up.may_take(at(0)));
}

TEST(LeaseCandidate, CountsFromTheMomentItLastSawTheLeaseChange) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "1"), at(100));
  EXPECT_FALSE(candidate.may_take(at(114)));
  candidate.observe(held_by("b", "2"), at(114));
  EXPECT_FALSE(candidate.may_take(at(128)));
  EXPECT_EQ(candidate.wait(at(128)), seconds(1));
  candidate.observe(held_by("b", "2"), at(128));
  EXPECT_TRUE(candidate.may_take(at(129)));
}

TEST(LeaseCandidate, AnotherResourceVersionAloneRenewsNothing) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "1"), at(0));
  kube::Lease annotated = held_by("b", "1");
  annotated.resource_version = "8";
  candidate.observe(annotated, at(14));
  EXPECT_TRUE(candidate.may_take(at(15)));
}

// The holder sent the second one at 102, and ended at 110; it arrived when the network was mended.
TEST(LeaseCandidate, ARenewalThatArrivesLateCountsFromWhenItWasSent) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "2026-01-02T03:04:05.900000Z"), at(100));
  candidate.observe(held_by("b", "2026-01-02T03:04:07.100000Z"), at(111));
  EXPECT_FALSE(candidate.may_take(at(117)));
  EXPECT_EQ(candidate.wait(at(117)), seconds(1));
  EXPECT_TRUE(candidate.may_take(at(118)));
}

TEST(LeaseCandidate, AHolderWhoseClockIsMovedKeepsTheLease) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "2026-01-02T03:04:05Z"), at(100));
  candidate.observe(held_by("b", "2026-01-02T04:04:07Z"), at(102));
  EXPECT_FALSE(candidate.may_take(at(116)));
  candidate.observe(held_by("b", "2026-01-02T03:04:09Z"), at(104));
  EXPECT_FALSE(candidate.may_take(at(118)));
  EXPECT_TRUE(candidate.may_take(at(119)));
}

TEST(LeaseCandidate, WaitsAsLongAsTheHolderStatesWithinItsLimit) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "1", 30), at(0));
  EXPECT_FALSE(candidate.may_take(at(29)));
  EXPECT_TRUE(candidate.may_take(at(30)));
  candidate.observe(held_by("b", "2", 1'000'000), at(40));
  EXPECT_FALSE(candidate.may_take(at(99)));
  EXPECT_TRUE(candidate.may_take(at(100)));
  // A holder that never renews states none: then the candidate's own duration counts.
  candidate.observe(held_by("c", "", 0), at(200));
  EXPECT_FALSE(candidate.may_take(at(214)));
  EXPECT_TRUE(candidate.may_take(at(215)));
}

TEST(LeaseCandidate, IgnoresRequestsOfKubeSchedulerByDefault) {
  LeaseCandidate candidate("a", {});
  candidate.observe(held_by("b", "1"), at(0));
  candidate.observe(held_by("b", "2"), at(20));
  candidate.note_asked(at(20));
  EXPECT_FALSE(candidate.may_take(at(20)));
}

TEST(LeaseCandidate, TakesTheLeaseWhenItIsAskedFromAHolderThatHadItForSomeTime) {
  LeaseCandidate candidate("a", {.when_asked = true});
  candidate.observe(held_by("b", "1"), at(0));
  candidate.note_asked(at(4));
  EXPECT_FALSE(candidate.may_take(at(9)));
  EXPECT_EQ(candidate.wait(at(9)), seconds(1));
  candidate.observe(held_by("b", "2"), at(9));
  EXPECT_TRUE(candidate.may_take(at(10)));
  // The request was long ago.
  candidate.observe(held_by("b", "3"), at(19));
  EXPECT_FALSE(candidate.may_take(at(19)));
}

TEST(LeaseCandidate, TakesAFreeLeaseLaterWhereKubeSchedulerAsksAnother) {
  LeaseCandidate absent("a", {.when_asked = true});
  absent.observe(std::nullopt, at(0));
  EXPECT_FALSE(absent.may_take(at(9)));
  EXPECT_EQ(absent.wait(at(9)), seconds(1));
  absent.observe(std::nullopt, at(9));
  EXPECT_TRUE(absent.may_take(at(10)));
  LeaseCandidate given_up("a", {.when_asked = true});
  given_up.observe(held_by("", "1"), at(0));
  EXPECT_FALSE(given_up.may_take(at(9)));
  EXPECT_TRUE(given_up.may_take(at(10)));
  LeaseCandidate expired("a", {.when_asked = true});
  expired.observe(held_by("b", "1"), at(0));
  EXPECT_FALSE(expired.may_take(at(24)));
  EXPECT_EQ(expired.wait(at(24)), seconds(1));
  EXPECT_TRUE(expired.may_take(at(25)));
}

TEST(LeaseCandidate, TakesAFreeLeaseAtOnceWhenItIsAsked) {
  LeaseCandidate absent("a", {.when_asked = true});
  absent.observe(std::nullopt, at(0));
  absent.note_asked(at(1));
  EXPECT_TRUE(absent.may_take(at(1)));
  LeaseCandidate given_up("a", {.when_asked = true});
  given_up.observe(held_by("", "1"), at(0));
  given_up.note_asked(at(1));
  EXPECT_TRUE(given_up.may_take(at(1)));
}

TEST(LeaseCandidate, WritesItselfWithItsDurationAndCountsTheTransition) {
  LeaseCandidate candidate("a", {.duration = seconds(20)});
  candidate.observe(held_by("b", "1"), at(0));
  const kube::Lease mine = candidate.taken({"kube-system", "mgpu-extender"}, "now");
  EXPECT_EQ(mine.holder, "a");
  EXPECT_EQ(mine.resource_version, "7");
  EXPECT_EQ(mine.duration_s, 20);
  EXPECT_EQ(mine.renew_time, "now");
  EXPECT_EQ(mine.acquire_time, "now");
  EXPECT_EQ(mine.transitions, 4);
}

TEST(LeaseCandidate, CreatesTheLeaseWithoutAResourceVersion) {
  LeaseCandidate candidate("a", {});
  candidate.observe(std::nullopt, at(0));
  EXPECT_EQ(candidate.taken({"n", "l"}, "now").resource_version, "");
}

}  // namespace
}  // namespace mgpu::extender
