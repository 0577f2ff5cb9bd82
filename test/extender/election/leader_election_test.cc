#include "extender/election/leader_election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "test/support/faulty_api_server.h"
#include "test/support/hanging_executor.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const kube::ObjectRef kLease{"kube-system", "mgpu-extender"};

class LeaderElectionTest : public testing::Test {
 protected:
  struct Process {
    int taken = 0;
    std::vector<std::string> lost;
    std::vector<std::string> problems;
    std::vector<std::string> holders;
    std::unique_ptr<LeaderElection> election;
  };
  void add(Process& process, const std::string& identity, const ElectionOptions& options = {}) {
    process.election = std::make_unique<LeaderElection>(
        server, kLease, identity, options, work,
        LeaderElection::Events{
            .on_taken = [&process] { ++process.taken; },
            .on_lost = [&process](const std::string& why) { process.lost.push_back(why); },
            .on_problem = [&process](const std::string& why) { process.problems.push_back(why); },
            .on_other_holder =
                [&process](const std::string& holder) { process.holders.push_back(holder); }},
        [this] { return "2026-01-02T03:04:05." + std::to_string(100'000 + ++writes) + "Z"; });
    process.election->start();
    executor.advance(milliseconds(1));
  }
  std::optional<kube::Lease> lease() {
    const auto read = kube::read_lease(server.call(kube::get_lease(kLease)).body);
    return read ? std::optional(*read) : std::nullopt;
  }
  std::string holder() { return lease() ? lease()->holder : "no lease"; }
  void write(kube::Lease lease) { ASSERT_TRUE(server.call(kube::write_lease(lease)).ok()); }

  mgpu::test::ManualExecutor executor;
  mgpu::test::FaultyApiServer server{executor, {}};
  mgpu::test::HangingExecutor working{executor};
  Heartbeat work{working};
  int writes = 0;
  Process a;
  Process b;
};

TEST_F(LeaderElectionTest, OneOfTwoLeadsAndRenewsTheLease) {
  add(a, "a");
  add(b, "b");
  EXPECT_EQ(a.taken, 1);
  const std::string before = lease()->renew_time;
  executor.advance(seconds(60));
  EXPECT_EQ(holder(), "a");
  EXPECT_NE(lease()->renew_time, before);
  EXPECT_EQ(b.taken, 0);
  EXPECT_THAT(a.problems, IsEmpty());
  EXPECT_THAT(b.problems, IsEmpty());
}

TEST_F(LeaderElectionTest, TheOtherOneLeadsWhenTheLeaderWasKilled) {
  add(a, "a");
  add(b, "b");
  executor.advance(seconds(30));
  a.election.reset();
  executor.advance(seconds(13));
  EXPECT_EQ(b.taken, 0);
  executor.advance(seconds(3));
  EXPECT_EQ(b.taken, 1);
  EXPECT_EQ(holder(), "b");
}

TEST_F(LeaderElectionTest, ALeaderThatGivesTheLeaseUpIsFollowedAtOnce) {
  add(a, "a");
  add(b, "b");
  bool released = false;
  a.election->release([&] { released = true; });
  executor.advance(milliseconds(10));
  EXPECT_TRUE(released);
  EXPECT_EQ(b.taken, 1);
  EXPECT_EQ(holder(), "b");
  executor.advance(seconds(60));
  EXPECT_EQ(holder(), "b");
  EXPECT_EQ(a.taken, 1);
}

TEST_F(LeaderElectionTest, ACandidateNamesEachOtherHolderOnce) {
  add(a, "a");
  add(b, "b");
  executor.advance(seconds(60));
  EXPECT_THAT(b.holders, ElementsAre("a"));
  kube::Lease other = *lease();
  other.holder = "c";
  write(other);
  executor.advance(seconds(5));
  EXPECT_THAT(b.holders, ElementsAre("a", "c"));
  EXPECT_THAT(a.holders, IsEmpty());
}

// No API server stores such a Lease; one that is too long to be read looks the same.
TEST_F(LeaderElectionTest, ALeaseThatCannotBeReadIsReportedAndNotTaken) {
  kube::Request create = kube::write_lease({.ref = kLease, .resource_version = {}, .holder = "c"});
  create.body.replace(create.body.find("\"c\""), 3, "[7]");
  ASSERT_TRUE(server.call(create).ok());
  add(a, "a");
  executor.advance(seconds(60));
  EXPECT_EQ(a.taken, 0);
  EXPECT_THAT(a.problems, Contains(HasSubstr("mgpu-extender cannot be read: spec.holderIdentity")));
}

TEST_F(LeaderElectionTest, AFollowerThatEndsChangesNothing) {
  add(a, "a");
  add(b, "b");
  bool released = false;
  b.election->release([&] { released = true; });
  executor.advance(milliseconds(10));
  EXPECT_TRUE(released);
  EXPECT_EQ(holder(), "a");
}

// It was frozen, for example.
TEST_F(LeaderElectionTest, ALeaderThatFindsAnotherHolderEnds) {
  add(a, "a");
  kube::Lease taken = *lease();
  taken.holder = "other";
  write(taken);
  executor.advance(seconds(3));
  EXPECT_THAT(a.lost, ElementsAre(HasSubstr("its holder is \"other\"")));
  executor.advance(seconds(120));
  EXPECT_EQ(holder(), "other");
  EXPECT_EQ(a.taken, 1);
}

TEST_F(LeaderElectionTest, ALeaderWhoseLeaseWasDeletedEnds) {
  add(a, "a");
  kube::Request remove = kube::get_lease(kLease);
  remove.method = kube::Method::kDelete;
  ASSERT_TRUE(server.call(remove).ok());
  executor.advance(seconds(3));
  EXPECT_THAT(a.lost, ElementsAre(HasSubstr("it was deleted")));
}

TEST_F(LeaderElectionTest, SomebodyElsesChangeOfOtherPartsLosesNothing) {
  add(a, "a");
  const kube::Lease same = *lease();
  write(same);
  executor.advance(seconds(30));
  EXPECT_THAT(a.lost, IsEmpty());
  EXPECT_EQ(holder(), "a");
}

TEST_F(LeaderElectionTest, ALeaderThatCannotRenewForTheDeadlineEnds) {
  add(a, "a");
  server.set_faults([](const kube::Request&) { return Fault{.kind = Fault::Kind::kRefuse}; });
  executor.advance(seconds(9));
  EXPECT_THAT(a.lost, IsEmpty());
  executor.advance(seconds(4));
  EXPECT_THAT(a.lost, ElementsAre(HasSubstr("could not be renewed")));
  EXPECT_THAT(a.problems, testing::Not(IsEmpty()));
}

TEST_F(LeaderElectionTest, ALeaderWhoseWorkHangsIsReplaced) {
  add(a, "a");
  executor.advance(seconds(30));
  working.hang();
  executor.advance(seconds(5));
  const std::string renewed = lease()->renew_time;
  executor.advance(seconds(5));
  EXPECT_EQ(lease()->renew_time, renewed);
  executor.advance(seconds(4));
  EXPECT_THAT(a.lost, ElementsAre(HasSubstr("this process has done nothing for 1")));
  working.go_on();
  add(b, "b");
  executor.advance(seconds(16));
  EXPECT_EQ(holder(), "b");
}

TEST_F(LeaderElectionTest, WorkThatHangsForAMomentLosesNothing) {
  add(a, "a");
  add(b, "b");
  for (int i = 0; i < 5; ++i) {
    executor.advance(seconds(10));
    working.hang();
    executor.advance(seconds(8));
    working.go_on();
  }
  EXPECT_THAT(a.lost, IsEmpty());
  EXPECT_EQ(holder(), "a");
}

TEST_F(LeaderElectionTest, AShortOutageLosesNothing) {
  add(a, "a");
  server.set_faults([](const kube::Request&) { return Fault{.status = 503}; });
  executor.advance(seconds(6));
  server.set_faults(nullptr);
  executor.advance(seconds(30));
  EXPECT_THAT(a.lost, IsEmpty());
  EXPECT_EQ(holder(), "a");
}

TEST_F(LeaderElectionTest, ARenewalWhoseAnswerWasLostIsNoLoss) {
  add(a, "a");
  int lost = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (request.method != kube::Method::kPut || lost++ > 0) return std::nullopt;
    return Fault{.kind = Fault::Kind::kLoseAnswer};
  });
  executor.advance(seconds(30));
  EXPECT_GT(lost, 1);
  EXPECT_THAT(a.lost, IsEmpty());
  EXPECT_EQ(holder(), "a");
}

// The watch shows that this process holds it.
TEST_F(LeaderElectionTest, ATakeWhoseAnswerWasLostSucceedsAfterwards) {
  int lost = 0;
  server.set_faults([&](const kube::Request& request) -> std::optional<Fault> {
    if (request.method != kube::Method::kPost || lost++ > 0) return std::nullopt;
    return Fault{.kind = Fault::Kind::kLoseAnswer};
  });
  add(a, "a");
  executor.advance(seconds(5));
  EXPECT_EQ(a.taken, 1);
  EXPECT_EQ(lost, 1);
  EXPECT_THAT(a.problems, SizeIs(1));
}

TEST_F(LeaderElectionTest, AFollowerThatKubeSchedulerAsksTakesTheLease) {
  add(a, "a", {.when_asked = true});
  add(b, "b", {.when_asked = true});
  executor.advance(seconds(30));
  EXPECT_EQ(a.taken + b.taken, 1) << "one leads although kube-scheduler asks none";
  EXPECT_EQ(holder(), "a");
  b.election->note_asked();
  executor.advance(milliseconds(10));
  EXPECT_EQ(b.taken, 1);
  EXPECT_EQ(holder(), "b");
  executor.advance(seconds(3));
  EXPECT_THAT(a.lost, SizeIs(1));
}

TEST_F(LeaderElectionTest, OfSeveralFollowersTheOneThatIsAskedReplacesALeaderThatWasKilled) {
  Process c;
  add(a, "a", {.when_asked = true});
  a.election->note_asked();
  executor.advance(milliseconds(10));
  EXPECT_EQ(holder(), "a");
  add(b, "b", {.when_asked = true});
  add(c, "c", {.when_asked = true});
  executor.advance(seconds(30));
  a.election.reset();
  // The Lease expires before the next kube-scheduler leads.
  executor.advance(seconds(17));
  c.election->note_asked();
  executor.advance(milliseconds(10));
  EXPECT_EQ(c.taken, 1);
  EXPECT_EQ(holder(), "c");
  EXPECT_EQ(b.taken, 0);
  b.election.reset();
  c.election.reset();
}

}  // namespace
}  // namespace mgpu::extender
