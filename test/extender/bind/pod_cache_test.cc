#include "extender/bind/pod_cache.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

constexpr PodCache::Limits kTwoPods{.pods = 2, .bytes = 1 << 20, .pod_bytes = 1 << 16};

BindablePod bindable(const std::string& uid, const std::string& version = "1") {
  BindablePod pod;
  pod.uid = PodUid(uid);
  pod.resource_version = version;
  return pod;
}

BindablePod with_label(const std::string& uid, std::size_t bytes) {
  BindablePod pod = bindable(uid);
  pod.labels["label"] = std::string(bytes, 'x');
  return pod;
}

TEST(PodCache, GivesAPodOnce) {
  PodCache pods(kTwoPods);
  pods.put(bindable("a"));
  ASSERT_TRUE(pods.take(PodUid("a")));
  EXPECT_FALSE(pods.take(PodUid("a")));
  EXPECT_FALSE(pods.take(PodUid("b")));
  EXPECT_EQ(pods.bytes(), 0u);
}

TEST(PodCache, KeepsTheLastPodOfAUid) {
  PodCache pods(kTwoPods);
  pods.put(bindable("a", "1"));
  pods.put(bindable("a", "2"));
  EXPECT_EQ(pods.take(PodUid("a"))->resource_version, "2");
  EXPECT_FALSE(pods.take(PodUid("a")));
}

TEST(PodCache, DropsThePodThatWasPutLongestAgo) {
  PodCache pods(kTwoPods);
  pods.put(bindable("a"));
  pods.put(bindable("b"));
  pods.put(bindable("a"));
  pods.put(bindable("c"));
  EXPECT_FALSE(pods.take(PodUid("b")));
  EXPECT_TRUE(pods.take(PodUid("a")));
  EXPECT_TRUE(pods.take(PodUid("c")));
}

TEST(PodCache, KeepsNoPodThatCannotBeAPrecondition) {
  PodCache pods(kTwoPods);
  pods.put(bindable(""));
  pods.put(bindable("a", ""));
  EXPECT_FALSE(pods.take(PodUid("")));
  EXPECT_FALSE(pods.take(PodUid("a")));
}

TEST(PodCache, BytesAreBounded) {
  constexpr std::size_t kEach = 10'000;
  PodCache pods({.pods = 1'000, .bytes = 5 * kEach, .pod_bytes = 2 * kEach});
  for (int i = 0; i < 100; ++i) {
    pods.put(with_label("pod-" + std::to_string(i), kEach));
    ASSERT_LE(pods.bytes(), 5 * kEach);
  }
  EXPECT_TRUE(pods.take(PodUid("pod-99")));
  EXPECT_TRUE(pods.take(PodUid("pod-96")));
  EXPECT_FALSE(pods.take(PodUid("pod-95")));
}

TEST(PodCache, APodThatIsTooLargeIsNotKeptAndDisplacesNoOther) {
  PodCache pods({.pods = 10, .bytes = 100'000, .pod_bytes = 10'000});
  pods.put(bindable("small"));
  pods.put(bindable("grows"));
  pods.put(with_label("grows", 20'000));
  EXPECT_FALSE(pods.take(PodUid("grows")));
  EXPECT_TRUE(pods.take(PodUid("small")));
}

TEST(BytesOf, CountsTheTextsThatAPodMayMakeLong) {
  const std::string text(1'000, 'x');
  const std::vector<std::function<void(BindablePod&)>> longer = {
      [&](BindablePod& pod) { pod.labels[text] = ""; },
      [&](BindablePod& pod) { pod.labels[""] = text; },
      [&](BindablePod& pod) { pod.request.request.selector.models = {text}; },
      [&](BindablePod& pod) { pod.request.request.selector.models_excluded = {text}; },
      [&](BindablePod& pod) { pod.request.request.selector.uuids = {text}; },
      [&](BindablePod& pod) { pod.request.request.selector.uuids_excluded = {text}; },
      [&](BindablePod& pod) { pod.request.request.policy = text; },
      [&](BindablePod& pod) { pod.request.request.containers = {{.name = text}}; },
      [&](BindablePod& pod) { pod.start_time = text; },
  };
  const std::size_t before = bytes_of(BindablePod());
  for (std::size_t i = 0; i < longer.size(); ++i) {
    BindablePod pod;
    longer[i](pod);
    // A short text needs no memory of its own.
    EXPECT_GE(bytes_of(pod) + sizeof(std::string), before + text.size()) << i;
  }
}

}  // namespace
}  // namespace mgpu::extender
