#include "common/base/utc_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;

TEST(UtcText, HasEveryDigit) {
  EXPECT_EQ(utc_text(sys_seconds{}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(sys_seconds(seconds(1'767'323'045))), "2026-01-02T03:04:05Z");
  EXPECT_EQ(utc_text(sys_seconds(seconds(951'868'799))), "2000-02-29T23:59:59Z");
}

TEST(UtcText, OfNowIsInWholeSeconds) {
  EXPECT_THAT(utc_now(), testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

}  // namespace
}  // namespace mgpu
