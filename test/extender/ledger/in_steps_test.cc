#include "extender/ledger/in_steps.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

namespace mgpu::extender {
namespace {

// The elements of each step.
class InStepsTest : public testing::Test {
 protected:
  auto hold() {
    return [this](const auto& step) {
      if (between) between();
      sizes.push_back(0);
      step();
    };
  }

  std::vector<std::size_t> sizes;
  std::function<void()> between;
};

TEST_F(InStepsTest, AVectorIsAppliedInSteps) {
  std::vector<int> all(2 * kRelistStep + 1, 1);
  int sum = 0;
  in_steps(all, hold(), [&](int one) {
    sum += one;
    ++sizes.back();
  });
  EXPECT_EQ(sum, 2 * kRelistStep + 1);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{kRelistStep, kRelistStep, 1}));
}

TEST_F(InStepsTest, AMapIsVisitedInStepsAndMayBecomeEmpty) {
  std::map<std::size_t, int> all;
  for (std::size_t i = 0; i < 2 * kRelistStep + 1; ++i) all[i] = 1;
  each_in_steps(all, hold(), [&](const auto& one) {
    ++sizes.back();
    all.erase(one.first);
  });
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{kRelistStep, kRelistStep, 1}));
}

TEST_F(InStepsTest, AMapMayChangeBetweenTheSteps) {
  std::map<std::size_t, int> all;
  for (std::size_t i = 0; i < 2 * kRelistStep; ++i) all[i] = 0;
  between = [&] {
    if (sizes.size() == 1) {
      all.erase(kRelistStep - 1);  // the last that was visited
      all.erase(kRelistStep);      // the next one
      all[3 * kRelistStep] = 0;
    }
  };
  each_in_steps(all, hold(), [&](auto& one) { ++one.second; });
  EXPECT_EQ(all.size(), 2 * kRelistStep - 1);
  for (const auto& [number, visits] : all) EXPECT_EQ(visits, 1) << number;
}

TEST_F(InStepsTest, WhatIsEmptyTakesNoStepOrOne) {
  std::vector<int> none;
  in_steps(none, hold(), [](int) { FAIL(); });
  EXPECT_EQ(sizes.size(), 0U);
  std::map<int, int> empty;
  each_in_steps(empty, hold(), [](const auto&) { FAIL(); });
  EXPECT_EQ(sizes.size(), 1U);
}

}  // namespace
}  // namespace mgpu::extender
