#include "common/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

namespace mgpu {
namespace {

UniqueFd open_null() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int number) {
  return ::fcntl(number, F_GETFD) != -1;
}

TEST(UniqueFd, ClosesAtItsEnd) {
  int number = -1;
  {
    const UniqueFd file = open_null();
    number = file.number();
    EXPECT_TRUE(file.is_open());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, OwnsNothingAfterAFailedOpen) {
  const UniqueFd file(::open("/no/such/file", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(file.is_open());
  EXPECT_FALSE(UniqueFd().is_open());
}

TEST(UniqueFd, PassesOnWhatItOwns) {
  UniqueFd first = open_null();
  const int number = first.number();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.is_open());
  EXPECT_EQ(second.number(), number);
  UniqueFd third = open_null();
  const int replaced = third.number();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.number(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ClosesOnceAndKeepsErrno) {
  UniqueFd file = open_null();
  errno = ENOENT;
  file.close();
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(file.is_open());
  file.close();
  EXPECT_EQ(file.number(), -1);
}

}  // namespace
}  // namespace mgpu
