#include "extender/learning/gpu_pod_window.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/contract/limits.h"
#include "extender/learning/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {

using test::request_of;

constexpr std::size_t kPods = 400;
constexpr std::size_t kBytes = std::size_t{1} << 20;

// The largest class that a pod can have, different for each number.
PodClass hostile_class(std::size_t number) {
  PodClass what = classes_of(request_of("1/100"), {}).front();
  for (auto* names : {&what.models, &what.models_excluded}) {
    for (std::size_t i = 0; i < kSelectorEntriesMax; ++i) {
      std::string name = std::to_string(number) + "-" + std::to_string(i) + "-";
      name.resize(kCardTextMax, 'x');
      names->push_back(std::move(name));
    }
  }
  return what;
}

std::vector<PodClass> ordinary(int core = 30) {
  return classes_of(request_of(std::to_string(core) + "/1000"), {});
}

// By the number of the namespace in the order of names.
std::vector<std::int64_t> pods_of(const GpuPodWindow& window) {
  std::vector<std::int64_t> pods;
  for (const NamespaceCount& one : window.counts()) pods.push_back(one.pods);
  return pods;
}
using PodCounts = std::vector<std::int64_t>;

TEST(GpuPodWindow, ASingleNamespaceMayFillTheWindow) {
  GpuPodWindow window(kPods, kBytes);
  for (std::size_t i = 0; i < 3 * kPods; ++i) window.add("a", ordinary());
  EXPECT_EQ(pods_of(window), PodCounts{kPods});
  EXPECT_TRUE(window.was_full());
}

TEST(GpuPodWindow, TheOldestLeaveFirst) {
  GpuPodWindow window(kPods, kBytes);
  window.add("a", ordinary(10));
  for (std::size_t i = 0; i < kPods - 1; ++i) window.add("a", ordinary(20));
  EXPECT_FALSE(window.was_full());
  EXPECT_EQ(window.counts().front().classes.size(), 2U);
  window.add("a", ordinary(20));
  EXPECT_EQ(window.counts().front().classes.size(), 1U);
}

TEST(GpuPodWindow, ANamespaceWithLessThanAQuarterIsReplacedByAgeOnly) {
  GpuPodWindow window(kPods, kBytes);
  for (std::size_t i = 0; i < kPods; ++i) window.add("old", ordinary());
  for (std::size_t i = 0; i < kPods / 8; ++i) window.add("small", ordinary());
  EXPECT_EQ(pods_of(window), (PodCounts{kPods - kPods / 8, kPods / 8}));
}

TEST(GpuPodWindow, ANamespaceWithMoreThanAQuarterReplacesItsOwnPods) {
  GpuPodWindow window(kPods, kBytes);
  for (std::size_t i = 0; i < kPods; ++i) window.add("a", ordinary());
  for (std::size_t i = 0; i < 100 * kPods; ++i) window.add("hostile", ordinary());
  EXPECT_EQ(pods_of(window), (PodCounts{kPods - kPods / 4, kPods / 4}));
}

TEST(GpuPodWindow, DistinctSelectorsOfTheLargestSizeStayWithinTheBytes) {
  GpuPodWindow window(kPods, kBytes);
  for (std::size_t i = 0; i < 5'000; ++i) {
    window.add("hostile", {hostile_class(i)});
    ASSERT_LE(window.bytes(), kBytes) << i;
  }
  EXPECT_GT(window.bytes(), kBytes / 2);
}

TEST(GpuPodWindow, LargeSelectorsDoNotRemoveOthersPods) {
  GpuPodWindow window(kPods, kBytes);
  for (std::size_t i = 0; i < kPods / 2; ++i) window.add("a", ordinary());
  for (std::size_t i = 0; i < 5'000; ++i) window.add("hostile", {hostile_class(i)});
  EXPECT_EQ(pods_of(window).front(), kPods / 2);
  EXPECT_LE(window.bytes(), kBytes);
}

TEST(GpuPodWindow, APodLargerThanTheWindowIsNotKept) {
  GpuPodWindow window(kPods, 4'096);
  window.add("hostile", {hostile_class(0)});
  EXPECT_EQ(window.pods(), 0U);
  EXPECT_EQ(window.bytes(), 0U);
  EXPECT_TRUE(window.counts().empty());
}

TEST(GpuPodWindow, EmptyNamespacesTakeNoBytes) {
  GpuPodWindow window(10, kBytes);
  for (int i = 0; i < 1'000; ++i) window.add("namespace-" + std::to_string(i), ordinary());
  const std::size_t bytes = window.bytes();
  for (int i = 1'000; i < 2'000; ++i) window.add("namespace-" + std::to_string(i), ordinary());
  EXPECT_EQ(window.counts().size(), 10U);
  EXPECT_EQ(window.bytes(), bytes + 10) << "ten names are one letter longer";
}

}  // namespace
}  // namespace mgpu::extender
