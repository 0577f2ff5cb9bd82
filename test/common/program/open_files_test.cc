#include "common/program/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/program/limits.h"

namespace mgpu {
namespace {

class OpenFiles : public testing::Test {
 protected:
  OpenFiles() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~OpenFiles() override { setrlimit(RLIMIT_NOFILE, &before_); }

  rlimit before_{};
};

TEST_F(OpenFiles, TheSoftLimitIsRaisedAsFarAsTheHardLimitAllows) {
  const rlimit low{.rlim_cur = 512, .rlim_max = before_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const std::size_t expected = std::min<rlim_t>(before_.rlim_max, kOpenFilesWanted);
  EXPECT_EQ(raise_open_files_limit(), expected);
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, expected);
  EXPECT_EQ(now.rlim_max, before_.rlim_max);
}

TEST_F(OpenFiles, AHigherSoftLimitStays) {
  const rlimit high{.rlim_cur = before_.rlim_max, .rlim_max = before_.rlim_max};
  if (before_.rlim_max <= kOpenFilesWanted || setrlimit(RLIMIT_NOFILE, &high) != 0) {
    GTEST_SKIP() << "the hard limit of this machine is low";
  }
  EXPECT_EQ(raise_open_files_limit(), before_.rlim_max);
}

TEST(ConnectionsWithin, LeavesRoomForOtherFiles) {
  struct Case {
    std::size_t open_files;
    std::size_t wanted;
    std::size_t others;
    std::size_t connections;
  };
  const Case cases[] = {
      {16'384, 1024, 64, 1024},       {1024, 1024, 64, 1024 - 64 - kOpenFilesKept},
      {1024, 100, 64, 100},           {256, 1024, 64, kConnectionsMin},
      {0, 1024, 64, kConnectionsMin},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(connections_within(c.open_files, c.wanted, c.others), c.connections) << c.open_files;
  }
}

}  // namespace
}  // namespace mgpu
