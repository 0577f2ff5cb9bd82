#include "plugin/agent/progress.h"

#include <gtest/gtest.h>

namespace mgpu::plugin {
namespace {

// Longer than a test may take: a call that misses what was before it does not return.
constexpr std::chrono::hours kForEver{1};

TEST(Progress, AWakeBeforeTheWaitIsNotLost) {
  Progress progress;
  progress.wake();
  EXPECT_TRUE(progress.wait_for_change(kForEver));
  EXPECT_TRUE(progress.wait_for_change(std::chrono::milliseconds(1))) << "it was for one wait";
}

TEST(Progress, AStopBeforeTheWaitIsNotLost) {
  Progress progress;
  progress.stop();
  EXPECT_FALSE(progress.wait_for_change(kForEver));
  EXPECT_FALSE(progress.wait(kForEver));
}

}  // namespace
}  // namespace mgpu::plugin
