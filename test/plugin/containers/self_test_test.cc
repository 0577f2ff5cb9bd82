// What the output of mgpu-check-share means. test/gpu/self_test_test.cc runs it.
#include "plugin/containers/self_test.h"

#include <gtest/gtest.h>

#include <string>

namespace mgpu::plugin {
namespace {

using Outcome = SelfTest::Outcome;

constexpr char kAll[] =
    "passed memory\npassed pool\nskipped graph: cuGraphLaunch returns 500\npassed processes\n"
    "passed ended\ndone\n";

TEST(ReadSelfTest, WhatTheDriverDoesNotHaveIsNoFailure) {
  EXPECT_EQ(read_self_test(kAll, "").outcome, Outcome::kPassed);
}

TEST(ReadSelfTest, AFailureCountsHoweverTheProgramEnds) {
  const SelfTest failed = read_self_test("failed pool: too much\n", "signal 9");
  EXPECT_EQ(failed.outcome, Outcome::kFailed);
  EXPECT_EQ(failed.why, "pool: too much");
}

// Each line that is missing.
TEST(ReadSelfTest, WithoutAllResultsNothingIsKnown) {
  for (const std::string line :
       {"passed memory\n", "passed processes\n", "passed ended\n", "done\n"}) {
    std::string printed = kAll;
    printed.erase(printed.find(line), line.size());
    const SelfTest result = read_self_test(printed, "");
    EXPECT_EQ(result.outcome, Outcome::kNotTested) << line;
    EXPECT_EQ(result.why, "it did not finish");
  }
  EXPECT_EQ(read_self_test("", "signal 9").why, "signal 9");
}

TEST(ReadSelfTest, ACardWithoutMemoryIsNotTested) {
  for (const std::string check : {"start", "memory"}) {
    const SelfTest result = read_self_test("skipped " + check + ": the card is full\n" + kAll, "");
    EXPECT_EQ(result.outcome, Outcome::kNotTested);
    EXPECT_EQ(result.why, check + ": the card is full");
  }
}

// A container has got the card to itself, or MPS has, before the last check.
TEST(ReadSelfTest, ACardThatIsTakenMeanwhileIsNotTested) {
  const SelfTest result =
      read_self_test("passed memory\npassed processes\nskipped ended: it is taken\ndone\n", "");
  EXPECT_EQ(result.outcome, Outcome::kNotTested);
  EXPECT_EQ(result.why, "ended: it is taken");
}

}  // namespace
}  // namespace mgpu::plugin
