#include "extender/bind/pod_cache.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

kube::Pod pod(const std::string& uid, const std::string& version = "1") {
  kube::Pod pod;
  pod.metadata.uid = uid;
  pod.metadata.resource_version = version;
  return pod;
}

TEST(PodCache, GivesAPodOnce) {
  PodCache pods(2);
  pods.put(pod("a"));
  ASSERT_TRUE(pods.take(PodUid("a")));
  EXPECT_FALSE(pods.take(PodUid("a")));
  EXPECT_FALSE(pods.take(PodUid("b")));
}

TEST(PodCache, KeepsTheLastPodOfAUid) {
  PodCache pods(2);
  pods.put(pod("a", "1"));
  pods.put(pod("a", "2"));
  EXPECT_EQ(pods.take(PodUid("a"))->metadata.resource_version, "2");
  EXPECT_FALSE(pods.take(PodUid("a")));
}

TEST(PodCache, DropsThePodThatWasPutLongestAgo) {
  PodCache pods(2);
  pods.put(pod("a"));
  pods.put(pod("b"));
  pods.put(pod("a"));
  pods.put(pod("c"));
  EXPECT_FALSE(pods.take(PodUid("b")));
  EXPECT_TRUE(pods.take(PodUid("a")));
  EXPECT_TRUE(pods.take(PodUid("c")));
}

TEST(PodCache, KeepsNoPodWithoutAUid) {
  PodCache pods(2);
  pods.put(pod(""));
  EXPECT_FALSE(pods.take(PodUid("")));
}

}  // namespace
}  // namespace mgpu::extender
