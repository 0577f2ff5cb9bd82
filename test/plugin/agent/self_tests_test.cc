// Which cards are offered by the results of the self test of the library.
#include "plugin/agent/self_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "common/base/files.h"
#include "common/base/log.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using Outcome = SelfTest::Outcome;
using testing::HasSubstr;

const CardUuid kCard("GPU-1");
const CardUuid kOther("GPU-2");
const std::string kRunning(kSelfTestRuns);

class SelfTestsTest : public testing::Test {
 public:
  SelfTestsTest() { EXPECT_TRUE(set_log_level("off")); }

  SelfTests::Run result(Outcome outcome, const std::string& why) {
    return [this, outcome, why](bool, const std::atomic<bool>&) {
      ++runs_;
      return SelfTest{outcome, why};
    };
  }
  // Once the test that it starts has ended.
  std::string problem(SelfTests& tests, const std::string& identity, const SelfTests::Run& run) {
    static_cast<void>(tests.problem_of(kCard, identity, run));
    EXPECT_TRUE(test::eventually([&] { return !tests.running(); }));
    return tests.problem_of(kCard, identity, run);
  }

  test::ScratchFolder folder_;
  std::string file_ = folder_.path("self-tests");
  std::atomic<int> runs_ = 0;
};

TEST_F(SelfTestsTest, ACardIsNotOfferedUntilItIsTested) {
  SelfTests tests(file_);
  std::atomic<bool> go = false;
  const SelfTests::Run run = [&](bool, const std::atomic<bool>&) {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return SelfTest{Outcome::kPassed, ""};
  };
  EXPECT_EQ(tests.problem_of(kCard, "a", run), kRunning);
  EXPECT_TRUE(tests.running());
  go = true;
  EXPECT_TRUE(test::eventually([&] { return !tests.running(); }));
  EXPECT_EQ(tests.problem_of(kCard, "a", run), "");
}

TEST_F(SelfTestsTest, ACardThatFailsIsNotOfferedAndOneThatCannotBeTestedIs) {
  SelfTests tests(file_);
  EXPECT_EQ(problem(tests, "a", result(Outcome::kFailed, "pool: too much")),
            "self test of the library: pool: too much");
  EXPECT_THAT(self_test_text(tests.results()),
              "; the library passed its self test on 0 of 1 cards; GPU-1: failed (pool: too much)");
  EXPECT_EQ(problem(tests, "b", result(Outcome::kNotTested, "the card is full")), "");
  EXPECT_THAT(self_test_text(tests.results()), HasSubstr("GPU-1: not tested (the card is full)"));
  EXPECT_EQ(problem(tests, "c", result(Outcome::kPassed, "")), "");
  EXPECT_EQ(self_test_text(tests.results()), "");
  EXPECT_EQ(runs_, 3) << "once for each driver and library";
}

// The cards may be full when the plugin starts again.
TEST_F(SelfTestsTest, ACardThatPassedIsNotTestedAgain) {
  {
    SelfTests tests(file_);
    EXPECT_EQ(problem(tests, "a", result(Outcome::kPassed, "")), "");
  }
  SelfTests tests(file_);
  EXPECT_EQ(tests.problem_of(kCard, "a", result(Outcome::kFailed, "x")), "");
  EXPECT_FALSE(tests.running());
  EXPECT_EQ(problem(tests, "b", result(Outcome::kFailed, "x")), "self test of the library: x");
  EXPECT_EQ(runs_, 2);
}

// The driver was replaced while pods use the card.
TEST_F(SelfTestsTest, AnOfferedCardStaysOfferedWhileItIsTestedAgain) {
  SelfTests tests(file_);
  EXPECT_EQ(problem(tests, "a", result(Outcome::kPassed, "")), "");
  std::atomic<bool> go = false;
  std::atomic<bool> was_offered = false;
  const SelfTests::Run run = [&](bool offered, const std::atomic<bool>&) {
    was_offered = offered;
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return SelfTest{Outcome::kFailed, "x"};
  };
  EXPECT_EQ(tests.problem_of(kCard, "b", run), "");
  EXPECT_TRUE(tests.running());
  EXPECT_EQ(tests.problem_of(kCard, "b", run), "");
  EXPECT_EQ(tests.results().at(kCard).outcome, Outcome::kPassed);
  go = true;
  EXPECT_EQ(problem(tests, "b", run), "self test of the library: x");
  EXPECT_TRUE(was_offered);
}

TEST_F(SelfTestsTest, OneTestRunsAtATime) {
  SelfTests tests(file_);
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  const SelfTests::Run run = [&](bool, const std::atomic<bool>&) {
    most = std::max<int>(most, ++now);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --now;
    ++runs_;
    return SelfTest{Outcome::kPassed, ""};
  };
  for (int card = 0; card < 4; ++card) {
    EXPECT_EQ(tests.problem_of(CardUuid("GPU-" + std::to_string(card)), "a", run), kRunning);
  }
  EXPECT_TRUE(test::eventually([&] { return !tests.running(); }));
  EXPECT_EQ(runs_, 4);
  EXPECT_EQ(most, 1);
}

TEST_F(SelfTestsTest, CardsThatAreGoneAreForgotten) {
  SelfTests tests(file_);
  static_cast<void>(problem(tests, "a", result(Outcome::kFailed, "x")));
  static_cast<void>(tests.problem_of(kOther, "a", result(Outcome::kPassed, "")));
  EXPECT_TRUE(test::eventually([&] { return !tests.running(); }));
  const FoundCard card{.uuid = kCard, .model = {}, .memory = {}};
  const FoundCard other{.uuid = kOther, .model = {}, .memory = {}};
  tests.keep_only({card, other});
  EXPECT_EQ(tests.results().size(), 2U);
  tests.keep_only({other});
  EXPECT_THAT(tests.results(), testing::ElementsAre(testing::Key(kOther)));
  EXPECT_EQ(self_test_text(tests.results()), "");
}

TEST_F(SelfTestsTest, ADamagedFileIsNoResult) {
  ASSERT_TRUE(write_file(file_, "GPU-1\ta and more\nGPU-1", Durability::kProcess));
  SelfTests tests(file_);
  EXPECT_EQ(tests.problem_of(kCard, "a", result(Outcome::kPassed, "")), kRunning);
}

TEST_F(SelfTestsTest, TheEndOfThePluginEndsATest) {
  SelfTests tests(file_);
  static_cast<void>(tests.problem_of(kCard, "a", [](bool, const std::atomic<bool>& cancelled) {
    while (!cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return SelfTest{Outcome::kNotTested, "it was cancelled"};
  }));
  tests.stop();
  EXPECT_FALSE(tests.running());
  EXPECT_EQ(tests.problem_of(kOther, "a", result(Outcome::kPassed, "")), kRunning);
  EXPECT_EQ(runs_, 0) << "no test starts after that";
}

}  // namespace
}  // namespace mgpu::plugin
