#include "common/kube/watch/unreadable_objects.h"

#include <gtest/gtest.h>

#include <string>

#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

TEST(UnreadableObjects, EachSentenceIsLoggedOnceAndEachObjectCounts) {
  UnreadableObjects objects;
  EXPECT_TRUE(objects.note("pod a: not JSON"));
  EXPECT_FALSE(objects.note("pod a: not JSON"));
  EXPECT_TRUE(objects.note("pod b: not JSON"));
  EXPECT_EQ(objects.count(), 3U);
}

TEST(UnreadableObjects, RemembersABoundedNumberOfSentences) {
  UnreadableObjects objects;
  objects.note("first");
  for (std::size_t i = 0; i < kUnreadableRemembered; ++i) objects.note(std::to_string(i));
  EXPECT_TRUE(objects.note("first"));
}

}  // namespace
}  // namespace mgpu::kube
