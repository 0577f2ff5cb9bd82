#include "common/base/backoff.h"

#include <gtest/gtest.h>

namespace mgpu {
namespace {

TEST(Backoff, StartsWithTheFirstWait) {
  EXPECT_EQ(Backoff(Duration(100), Duration(1'000)).next(), Duration(100));
}

TEST(Backoff, DoublesUpToTheLimitAndStaysThere) {
  Backoff backoff(Duration(100), Duration(700));
  for (const int wait : {100, 200, 400, 700, 700}) EXPECT_EQ(backoff.next(), Duration(wait));
}

TEST(Backoff, StartsAgainAfterAReset) {
  Backoff backoff(Duration(100), Duration(700));
  backoff.next();
  backoff.next();
  backoff.reset();
  EXPECT_EQ(backoff.next(), Duration(100));
  EXPECT_EQ(backoff.next(), Duration(200));
}

TEST(Backoff, IsConstantWhereTheFirstIsTheLimit) {
  Backoff backoff(Duration(100), Duration(100));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(backoff.next(), Duration(100));
}

}  // namespace
}  // namespace mgpu
