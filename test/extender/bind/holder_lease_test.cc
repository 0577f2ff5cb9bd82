#include "extender/bind/holder_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/objects/object_json.h"
#include "extender/bind/limits.h"
#include "test/extender/bind/binder_world.h"
#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using mgpu::test::Fault;
using test::is_lease;
using testing::ElementsAre;
using testing::HasSubstr;

const kube::ObjectRef kLease{"kube-system", "mgpu-extender"};

class HolderLeaseTest : public testing::Test {
 protected:
  // "held", or the error.
  static HolderLease::Done into(std::vector<std::string>& answers) {
    return [&answers](const kube::ApiResult<void>& answer) {
      answers.push_back(answer ? "held" : answer.error().message);
    };
  }
  std::string take(HolderLease& lease) {
    std::vector<std::string> answers;
    lease.take(into(answers));
    executor.run_ready();
    return answers.empty() ? "no answer" : answers.front();
  }
  std::string confirm(HolderLease& lease) {
    std::vector<std::string> answers;
    lease.confirm(into(answers));
    executor.run_ready();
    return answers.empty() ? "no answer" : answers.front();
  }
  // Counts the reads of the Lease from now on, which take `delay`.
  void delay_reads(Duration delay, int& reads) {
    server.set_faults([delay, &reads](const kube::Request& request) -> std::optional<Fault> {
      if (!is_lease(request)) return std::nullopt;
      ++reads;
      return Fault{.kind = Fault::Kind::kDelay, .delay = delay};
    });
  }
  std::string holder() {
    const auto lease = kube::read_lease(server.call(kube::get_lease(kLease)).body);
    return lease ? lease->holder : lease.error().message;
  }

  mgpu::test::ManualExecutor executor;
  mgpu::test::FaultyApiServer server{executor, {}};
  kube::Client client{server};
  std::vector<std::string> lost;
  HolderLease a{client, kLease, "a", [this](const std::string& why) { lost.push_back(why); }};
  HolderLease b{client, kLease, "b", [this](const std::string& why) { lost.push_back(why); }};
};

TEST_F(HolderLeaseTest, IsCreatedAndThenTakenFromWhoeverHoldsIt) {
  EXPECT_EQ(take(a), "held");
  EXPECT_EQ(holder(), "a");
  EXPECT_EQ(confirm(a), "held");
  EXPECT_EQ(take(b), "held");
  EXPECT_EQ(holder(), "b");
  EXPECT_EQ(confirm(b), "held");
  EXPECT_THAT(confirm(a), HasSubstr("its holder is \"b\""));
  EXPECT_TRUE(a.lost());
  EXPECT_FALSE(b.lost());
  EXPECT_THAT(lost, ElementsAre(HasSubstr("its holder is \"b\"")));
}

TEST_F(HolderLeaseTest, IsNotHeldAgainOnceItWasLost) {
  EXPECT_EQ(take(a), "held");
  EXPECT_EQ(take(b), "held");
  EXPECT_NE(confirm(a), "held");
  EXPECT_EQ(take(a), "held");
  EXPECT_NE(confirm(a), "held");
  EXPECT_THAT(lost, testing::SizeIs(1));
}

TEST_F(HolderLeaseTest, IsLostWhereItWasDeleted) {
  EXPECT_EQ(take(a), "held");
  kube::Request remove = kube::get_lease(kLease);
  remove.method = kube::Method::kDelete;
  EXPECT_TRUE(server.call(remove).ok());
  EXPECT_THAT(confirm(a), HasSubstr("it was deleted"));
  EXPECT_TRUE(a.lost());
}

TEST_F(HolderLeaseTest, AnAnswerThatSaysNothingAboutTheHolderLosesNothing) {
  EXPECT_EQ(take(a), "held");
  const Fault faults[] = {{.kind = Fault::Kind::kRefuse},
                          {.kind = Fault::Kind::kLoseAnswer},
                          {.status = 403},
                          {.status = 404, .body = "no such host"},
                          {.status = 503},
                          {.status = 200, .body = "{}"}};
  for (const Fault& fault : faults) {
    server.set_faults([&](const kube::Request&) { return fault; });
    EXPECT_NE(confirm(a), "held") << fault.status;
    EXPECT_FALSE(a.lost()) << fault.status;
  }
  server.set_faults(nullptr);
  EXPECT_EQ(confirm(a), "held");
}

// Both have read it before one of them writes.
TEST_F(HolderLeaseTest, OneOfTwoThatTakeItAtTheSameTimeGetsAConflict) {
  HolderLease third(client, kLease, "third", [](const std::string&) {});
  for (int round = 0; round < 2; ++round) {
    if (round > 0) {
      EXPECT_EQ(take(third), "held");
    }
    std::vector<std::string> answers;
    a.take(into(answers));
    b.take(into(answers));
    executor.run_ready();
    ASSERT_THAT(answers, testing::SizeIs(2));
    EXPECT_THAT(answers, testing::Contains("held").Times(1)) << round;
    EXPECT_THAT(answers, testing::Contains(HasSubstr("HTTP 409"))) << round;
  }
}

TEST_F(HolderLeaseTest, WhileCallsOverlapItIsReadOnceInAnInterval) {
  EXPECT_EQ(take(a), "held");
  int reads = 0;
  delay_reads(Duration(2), reads);
  std::vector<std::string> answers;
  for (int call = 0; call < 100; ++call) {
    a.confirm(into(answers));
    executor.advance(Duration(1));
  }
  executor.advance(Duration(kLeaseReadInterval) + Duration(2));
  EXPECT_THAT(answers, testing::SizeIs(100));
  EXPECT_LE(reads, 2 + Duration(100) / kLeaseReadInterval);
}

TEST_F(HolderLeaseTest, CallsThatOverlappedShareAReadAlsoWhenOneComesAlone) {
  EXPECT_EQ(take(a), "held");
  int reads = 0;
  delay_reads(Duration(2), reads);
  std::vector<std::string> answers;
  a.confirm(into(answers));
  a.confirm(into(answers));
  executor.advance(Duration(kLeaseReadInterval) + Duration(3));
  ASSERT_EQ(reads, 2);
  a.confirm(into(answers));
  executor.advance(Duration(3));
  EXPECT_EQ(reads, 2);
  executor.advance(Duration(kLeaseReadInterval));
  EXPECT_EQ(reads, 3);
  EXPECT_THAT(answers, testing::SizeIs(3));
}

TEST_F(HolderLeaseTest, ItIsReadAtOnceAgainOnceCallsNoLongerOverlap) {
  EXPECT_EQ(take(a), "held");
  std::vector<std::string> answers;
  a.confirm(into(answers));
  a.confirm(into(answers));
  executor.advance(Duration(kLeaseOverlapTime));
  ASSERT_THAT(answers, testing::SizeIs(2));
  for (int call = 0; call < 3; ++call) EXPECT_EQ(confirm(a), "held");
}

TEST_F(HolderLeaseTest, WithoutOverlapItIsReadAtOnce) {
  EXPECT_EQ(take(a), "held");
  for (int call = 0; call < 10; ++call) EXPECT_EQ(confirm(a), "held");
}

TEST_F(HolderLeaseTest, AReadThatWasSentBeforeDoesNotCount) {
  EXPECT_EQ(take(a), "held");
  int reads = 0;
  delay_reads(Duration(100), reads);
  std::vector<std::string> first, second, third;
  a.confirm(into(first));
  executor.advance(Duration(50));
  a.confirm(into(second));
  a.confirm(into(third));
  executor.advance(Duration(50));
  EXPECT_THAT(first, ElementsAre("held"));
  EXPECT_TRUE(second.empty());
  server.set_faults(nullptr);
  executor.advance(Duration(100));
  EXPECT_THAT(second, ElementsAre("held"));
  EXPECT_THAT(third, ElementsAre("held"));
  EXPECT_EQ(reads, 2);
}

}  // namespace
}  // namespace mgpu::extender
