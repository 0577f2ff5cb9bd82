#include <gtest/gtest.h>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

TEST(Shares, MayBeExceededSlightly) {
  for (const int percent : {10, 25, 50, 80}) {
    EXPECT_TRUE(is_within_share(percent / 100.0, percent)) << percent;
    EXPECT_TRUE(is_within_share(percent / 100.0 * 1.1, percent)) << percent;
    EXPECT_TRUE(is_within_share(0.01, percent)) << percent;
  }
}

TEST(Shares, AreExceededByAProgramWithMuchMore) {
  for (const int percent : {10, 25, 50, 80}) {
    EXPECT_FALSE(is_within_share(percent / 100.0 * 1.5, percent)) << percent;
    EXPECT_FALSE(is_within_share(1, percent)) << percent;
  }
}

}  // namespace
}  // namespace mgpu::gpu_trial
