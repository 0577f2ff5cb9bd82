#include "common/base/rfc3339.h"

#include <gtest/gtest.h>

namespace mgpu {
namespace {

TEST(Rfc3339, IsReadWithFractionsAndOffsets) {
  const auto seconds = [](const char* text) {
    const auto time = read_rfc3339(text);
    return time ? time->time_since_epoch().count() : -1;
  };
  EXPECT_EQ(seconds("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(seconds("2026-01-02T03:04:05Z"), 1'767'323'045);
  EXPECT_EQ(seconds("2026-01-02T03:04:05.999999999Z"), 1'767'323'045);
  EXPECT_EQ(seconds("2026-01-02T04:04:05+01:00"), 1'767'323'045);
  EXPECT_EQ(seconds("2026-01-01T21:34:05.5-05:30"), 1'767'323'045);
  EXPECT_EQ(seconds("2026-01-02t03:04:05z"), 1'767'323'045);
}

TEST(Rfc3339, RefusesOtherTexts) {
  for (const char* text :
       {"", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z",
        "2026-02-30T03:04:05Z", "2026-01-02T24:04:05Z", "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.5",
        "2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05Zx",
        "-026-01-02T03:04:05Z", "2026-01-02T03:04: 5Z", "xxxx-01-02T03:04:05Z"}) {
    EXPECT_FALSE(read_rfc3339(text)) << text;
  }
}

}  // namespace
}  // namespace mgpu
