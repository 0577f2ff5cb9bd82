#include "common/base/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace mgpu {
namespace {

static_assert(!std::is_convertible_v<std::int64_t, MiB>);
static_assert(!std::is_convertible_v<MiB, std::int64_t>);
static_assert(!std::is_constructible_v<MiB, Percent>);

template <class A, class B>
concept Adds = requires(A a, B b) {
  a + b;
};
static_assert(Adds<MiB, MiB> && !Adds<MiB, Percent> && !Adds<MiB, int>);

constexpr std::int64_t kMax = MiB::kMax;

TEST(Amount, AddsAndSubtracts) {
  EXPECT_EQ((MiB(3) + MiB(4)).value(), 7);
  EXPECT_EQ((MiB(4) - MiB(4)).value(), 0);
  MiB sum(1);
  sum += MiB(5);
  sum -= MiB(2);
  EXPECT_EQ(sum, MiB(4));
  EXPECT_LT(MiB(3), MiB(4));
  EXPECT_TRUE(MiB().zero());
  EXPECT_FALSE(MiB(1).zero());
}

TEST(Amount, FromANumberOutOfRangeIsEmpty) {
  EXPECT_EQ(MiB::from(0), MiB(0));
  EXPECT_EQ(MiB::from(kMax), MiB(kMax));
  for (const std::int64_t value :
       {std::int64_t{-1}, kMax + 1, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(MiB::from(value), std::nullopt) << value;
  }
}

TEST(Amount, NeverLeavesItsRange) {
  EXPECT_DEATH(MiB(-1), "amount out of range");
  EXPECT_DEATH(MiB(kMax + 1), "amount out of range");
  EXPECT_DEATH(MiB(kMax) + MiB(1), "amount out of range");
  EXPECT_DEATH(MiB(kMax) + MiB(kMax), "amount out of range");
  EXPECT_DEATH(MiB(3) - MiB(4), "amount below zero");
}

TEST(Amount, MinusSaturatingStopsAtZero) {
  EXPECT_EQ(MiB(5).minus_saturating(MiB(2)), MiB(3));
  EXPECT_EQ(MiB(5).minus_saturating(MiB(5)), MiB(0));
  EXPECT_EQ(MiB(0).minus_saturating(MiB(kMax)), MiB(0));
}

TEST(Share, FitsOnlyInBothDimensions) {
  const Share room{Percent(50), MiB(1000)};
  EXPECT_TRUE((Share{Percent(50), MiB(1000)}.fits_in(room)));
  EXPECT_TRUE(Share().fits_in(room));
  EXPECT_FALSE((Share{Percent(51), MiB(1)}.fits_in(room)));
  EXPECT_FALSE((Share{Percent(1), MiB(1001)}.fits_in(room)));
}

TEST(Share, CountsBothDimensions) {
  Share sum{Percent(30), MiB(100)};
  sum += {Percent(20), MiB(50)};
  EXPECT_EQ(sum, (Share{Percent(50), MiB(150)}));
  sum -= {Percent(50), MiB(150)};
  EXPECT_TRUE(sum.zero());
  EXPECT_DEATH((Share{Percent(1), MiB(1)} - Share{Percent(0), MiB(2)}), "amount below zero");
}

TEST(Share, MaxIsTakenInEachDimension) {
  EXPECT_EQ(max_of({Percent(1), MiB(9)}, {Percent(5), MiB(2)}), (Share{Percent(5), MiB(9)}));
}

TEST(Share, RoomInAnOverfullCardIsZero) {
  EXPECT_EQ(room_in({kWholeCard, MiB(100)}, {Percent(30), MiB(120)}), (Share{Percent(70), MiB(0)}));
}

}  // namespace
}  // namespace mgpu
