#include "extender/learning/workload_window.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/contract/limits.h"
#include "extender/learning/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu::extender {
namespace {
using test::request_of;

// The classes of the pods seen, without the default pod of a new window, which requests 8 cores.
std::vector<CountedClass> seen_in(const WorkloadWindow& window) {
  std::vector<CountedClass> counted = window.counted();
  std::erase_if(counted, [](const CountedClass& one) {
    return one.what.whole && one.what.resources.cpu == MilliCpu(8'000);
  });
  return counted;
}

NodeResources resources(std::int64_t cores, std::int64_t mib) {
  return {MilliCpu(cores * 1000), MiB(mib)};
}

TEST(WorkloadWindow, ANewWindowHoldsOneWholeCardPod) {
  const WorkloadWindow window;
  EXPECT_EQ(window.pods_seen(), 0U);
  ASSERT_EQ(window.counted().size(), 1U);
  EXPECT_TRUE(window.counted().front().what.whole);
}

TEST(WorkloadWindow, CountsAPodOnce) {
  WorkloadWindow window;
  for (int i = 0; i < 5; ++i) window.seen(7, "a", request_of("30/1000"), resources(2, 100));
  window.seen(8, "a", request_of("30/1000"), resources(2, 300));
  EXPECT_EQ(window.pods_seen(), 2U);
  ASSERT_EQ(seen_in(window).size(), 1U);
  EXPECT_EQ(seen_in(window).front().count, 2);
}

TEST(WorkloadWindow, PodsThatDifferOnlyInMainMemoryAreOneClassWithTheMean) {
  WorkloadWindow window;
  window.seen(1, "a", request_of("30/1000"), resources(2, 100));
  window.seen(2, "a", request_of("30/1000"), resources(2, 301));
  window.seen(3, "a", request_of("30/1000"), resources(4, 100));
  const auto counted = seen_in(window);
  ASSERT_EQ(counted.size(), 2U);
  const auto two = std::ranges::find(counted, 2, &CountedClass::count);
  ASSERT_NE(two, counted.end());
  EXPECT_EQ(two->what.resources, resources(2, 200));
}

TEST(WorkloadWindow, APodOfSeveralContainersIsAClassForEach) {
  WorkloadWindow window;
  window.seen(1, "a", request_of("30/1000 whole"), resources(2, 100));
  const auto counted = seen_in(window);
  ASSERT_EQ(counted.size(), 2U);
  std::int64_t memory = 0;
  for (const CountedClass& one : counted) memory += one.what.resources.memory.value();
  EXPECT_EQ(memory, 100);
}

TEST(WorkloadWindow, PodsWithoutCardsCountToo) {
  WorkloadWindow window;
  window.seen(1, "a", GpuRequest{}, resources(2, 100));
  ASSERT_EQ(seen_in(window).size(), 1U);
  EXPECT_EQ(seen_in(window).front().what.cards, 0);
}

TEST(WorkloadWindow, PodsWithoutCardsAreOneClass) {
  WorkloadWindow window;
  window.seen(1, "a", request_of("30/1000"), resources(1, 1));
  window.seen(2, "a", GpuRequest{}, resources(2, 100));
  window.seen(3, "b", GpuRequest{}, resources(4, 301));
  const auto counted = seen_in(window);
  ASSERT_EQ(counted.size(), 2U);
  EXPECT_EQ(counted.back().what, PodClass{.resources = resources(3, 200)});
  EXPECT_EQ(counted.back().count, 2);
}

TEST(WorkloadWindow, PodsWithoutCardsCountForAsManyAsThoseWithCardsAtMost) {
  WorkloadWindow window;
  for (std::uint64_t pod = 1; pod <= 2'000; ++pod)
    window.seen(pod, "a", GpuRequest{}, resources(static_cast<std::int64_t>(pod), 100));
  for (std::uint64_t pod = 3'001; pod <= 3'009; ++pod)
    window.seen(pod, "b", request_of("30/1000"), resources(1, 1));
  const auto counted = seen_in(window);
  ASSERT_EQ(counted.size(), 2U);
  EXPECT_EQ(counted.front().count, 9) << "of pods with cards";
  EXPECT_EQ(counted.back().count, 10) << "9 and the default pod";
}

TEST(WorkloadWindow, PodsWithoutCardsRemoveNoPodWithCards) {
  WorkloadWindow window(10);
  window.seen(1, "a", request_of("30/1000"), resources(1, 1));
  for (std::uint64_t pod = 2; pod <= 100; ++pod)
    window.seen(pod, "a", GpuRequest{}, resources(1, 1));
  EXPECT_EQ(seen_in(window).front().what.per_card.core, Percent(30));
}

TEST(WorkloadWindow, PodsWithoutCardsLeavePricesAsTheyAreExceptForTheFirst) {
  WorkloadWindow window;
  window.seen(1, "a", request_of("30/1000"), resources(1, 1));
  EXPECT_EQ(window.pods_that_change_prices(), 1U);
  for (std::uint64_t pod = 2; pod <= 9; ++pod) window.seen(pod, "a", GpuRequest{}, resources(1, 1));
  EXPECT_EQ(window.pods_that_change_prices(), 2U);
  EXPECT_EQ(window.pods_seen(), 9U);
}

TEST(WorkloadWindow, TheLargestAmountsDoNotOverflow) {
  WorkloadWindow window(1'000);
  const NodeResources most{MilliCpu(MilliCpu::kMax), MiB(MiB::kMax)};
  for (std::uint64_t pod = 1; pod <= 3'000; ++pod) {
    window.seen(2 * pod, "a", GpuRequest{}, most);
    window.seen(2 * pod + 1, "a", request_of("30/1000"), most);
  }
  for (const CountedClass& one : window.counted())
    EXPECT_EQ(one.what.resources,
              (NodeResources{MilliCpu(kLearnedAmountMax), MiB(kLearnedAmountMax)}));
}

// More than the window can hold of these.
TEST(WorkloadWindow, HostilePodsNeitherGrowItNorRemoveOthersNorOutweighThem) {
  WorkloadWindow window;
  GpuRequest hostile = request_of("1/1");
  std::uint64_t pod = 0;
  for (int i = 0; i < 300; ++i) window.seen(++pod, "a", request_of("30/1000"), resources(1, 1));
  for (int i = 0; i < 1'500; ++i) {
    std::string name = std::to_string(i);
    name.resize(kCardTextMax, 'x');
    hostile.selector.models.assign(kSelectorEntriesMax, name);
    for (std::size_t at = 0; at < kSelectorEntriesMax; ++at)
      hostile.selector.models[at] += std::to_string(at);
    hostile.selector.models_excluded = hostile.selector.models;
    window.seen(++pod, "hostile", hostile, resources(1, 1));
    ASSERT_LE(window.bytes(), kWorkloadWindowBytes);
  }
  double others = 0;
  double hostiles = 0;
  for (const CountedClass& one : seen_in(window))
    (one.what.models.empty() ? others : hostiles) += one.count;
  EXPECT_EQ(others, 300);
  EXPECT_LE(hostiles, 300.001);
}

TEST(WorkloadWindow, TheOldestLeaveAFullWindow) {
  WorkloadWindow window(3);
  for (std::uint64_t pod = 1; pod <= 5; ++pod)
    window.seen(pod, "a", request_of(pod <= 3 ? "10/1000" : "20/1000"), resources(1, 1));
  EXPECT_EQ(window.pods_seen(), 5U);
  double ten = 0;
  for (const CountedClass& one : window.counted())
    if (one.what.per_card.core == Percent(10)) ten += one.count;
  EXPECT_EQ(ten, 1);
}

TEST(WorkloadWindow, APodThatHasLeftTheWindowIsNotCountedAgain) {
  WorkloadWindow window(3);
  for (std::uint64_t pod = 1; pod <= 5; ++pod)
    window.seen(pod, "a", request_of("10/1000"), resources(1, 1));
  window.seen(1, "a", request_of("10/1000"), resources(1, 1));
  EXPECT_EQ(window.pods_seen(), 5U);
}

TEST(WorkloadWindow, APodIsCountedAgainAfterTheLimitOfKnownPods) {
  WorkloadWindow window(1);
  for (std::uint64_t pod = 1; pod <= kWorkloadKnownPods + 1; ++pod)
    window.seen(pod, "a", GpuRequest{}, resources(1, 1));
  window.seen(2, "a", GpuRequest{}, resources(1, 1));
  EXPECT_EQ(window.pods_seen(), kWorkloadKnownPods + 1);
  window.seen(1, "a", GpuRequest{}, resources(1, 1));
  EXPECT_EQ(window.pods_seen(), kWorkloadKnownPods + 2);
}

TEST(WorkloadWindow, ClassesThatHaveLeftAreGone) {
  WorkloadWindow window(1);
  window.seen(1, "a", request_of("10/1000"), resources(1, 1));
  window.seen(2, "a", request_of("20/1000"), resources(1, 1));
  ASSERT_EQ(window.counted().size(), 1U);
  EXPECT_EQ(window.counted().front().what.per_card.core, Percent(20));
}

}  // namespace
}  // namespace mgpu::extender
