#include "plugin/state/incumbent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

TEST(Incumbent, IsTheProcessThatWasStartedLast) {
  const test::ScratchFolder folder;
  Incumbent first(folder.path("run/serving"));
  EXPECT_FALSE(first.replaced());
  ASSERT_TRUE(first.become());
  EXPECT_FALSE(first.replaced());
  EXPECT_FALSE(first.successor_ended());
  auto second = std::make_unique<Incumbent>(folder.path("run/serving"));
  EXPECT_FALSE(first.replaced());
  ASSERT_TRUE(second->become());
  EXPECT_TRUE(first.replaced());
  EXPECT_FALSE(first.successor_ended());
  EXPECT_FALSE(second->replaced());
  second.reset();
  EXPECT_TRUE(first.replaced()) << "it does not know what the second one has done";
  EXPECT_TRUE(first.successor_ended());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("run")), {}), 1);
}

TEST(Incumbent, IsNotReplacedBecauseTheFileIsGone) {
  const test::ScratchFolder folder;
  Incumbent only(folder.path("serving"));
  ASSERT_TRUE(only.become());
  std::filesystem::remove(folder.path("serving"));
  EXPECT_FALSE(only.replaced());
  EXPECT_FALSE(only.successor_ended());
}

TEST(Incumbent, SaysWhyItReplacesNobody) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("file")) << "";
  Incumbent one(folder.path("file/serving"));
  EXPECT_THAT(one.become().error().message, testing::HasSubstr("cannot create"));
  EXPECT_FALSE(one.replaced());
}

}  // namespace
}  // namespace mgpu::plugin
