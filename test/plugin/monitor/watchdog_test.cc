#include "plugin/monitor/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

ContainerUse use(const std::string& pod, std::int64_t granted, std::int64_t used, int on_card = 0) {
  return {*record(pod, "app", {}).owner, grant(on_card, 50, granted), MiB(used), {}, 1};
}

TEST(Watchdog, ReportsOnceAfterTwoConsecutiveSamples) {
  Watchdog watchdog;
  EXPECT_THAT(watchdog.step({use("a", 1'000, 1'100)}), IsEmpty());
  EXPECT_THAT(watchdog.over(), IsEmpty());
  const auto reported = watchdog.step({use("a", 1'000, 1'200)});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].owner.pod.name, "a");
  EXPECT_EQ(reported[0].used, MiB(1'200));
  EXPECT_EQ(reported[0].grant, grant(0, 50, 1'000));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(watchdog.step({use("a", 1'000, 1'300)}), IsEmpty());
    ASSERT_THAT(watchdog.over(), SizeIs(1));
    EXPECT_EQ(watchdog.over()[0].used, MiB(1'300));
  }
}

TEST(Watchdog, StartsAgainAfterASampleWithinTheLimit) {
  Watchdog watchdog;
  watchdog.step({use("a", 1'000, 1'100)});
  watchdog.step({use("a", 1'000, 1'000)});
  EXPECT_THAT(watchdog.step({use("a", 1'000, 1'100)}), IsEmpty());
  EXPECT_THAT(watchdog.step({use("a", 1'000, 1'100)}), SizeIs(1));
  watchdog.step({use("a", 1'000, 1'000)});
  EXPECT_THAT(watchdog.over(), IsEmpty());
  watchdog.step({use("a", 1'000, 1'100)});
  EXPECT_THAT(watchdog.step({use("a", 1'000, 1'100)}), SizeIs(1));
}

TEST(Watchdog, AllowsTheLargerOf64MiBAndTwoPercent) {
  struct Case {
    std::int64_t granted, used;
    bool over;
  };
  const Case cases[] = {
      {0, 64, false},          {0, 65, true},
      {1'000, 1'064, false},   {1'000, 1'065, true},
      {3'200, 3'264, false},    // 2 % are 64
      {10'000, 10'200, false},  // 2 % are 200
      {10'000, 10'201, true},  {10'000, 0, false},
      {0, MiB::kMax, true},    {MiB::kMax, MiB::kMax, false},
  };
  for (const Case& c : cases) {
    Watchdog watchdog;
    watchdog.step({use("a", c.granted, c.used)});
    EXPECT_THAT(watchdog.step({use("a", c.granted, c.used)}), SizeIs(c.over ? 1 : 0))
        << c.used << " of " << c.granted;
  }
}

// The driver counts a context as memory of its process.
TEST(Watchdog, AllowsTheContextsOfFourProcesses) {
  struct Case {
    std::int32_t processes;
    std::int64_t used;
    bool over;
  };
  const Case cases[] = {
      {0, 1'064, false}, {0, 1'065, true}, {1, 1'564, false}, {1, 1'565, true},
      {4, 3'064, false}, {4, 3'065, true}, {9, 3'064, false}, {9, 3'065, true},
  };
  for (const Case& c : cases) {
    Watchdog watchdog(MiB(500));
    ContainerUse container = use("a", 1'000, c.used);
    container.processes = c.processes;
    watchdog.step({container});
    EXPECT_THAT(watchdog.step({container}), SizeIs(c.over ? 1 : 0))
        << c.used << " MiB of " << c.processes;
  }
}

TEST(Watchdog, DistinguishesContainersAndCards) {
  Watchdog watchdog;
  watchdog.step({use("a", 1'000, 2'000), use("b", 1'000, 10)});
  const auto reported =
      watchdog.step({use("a", 1'000, 2'000), use("b", 1'000, 2'000), use("a", 1'000, 2'000, 1)});
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].owner.pod.name, "a");
  EXPECT_EQ(reported[0].grant.uuid, card(0));
  EXPECT_THAT(watchdog.step({use("b", 1'000, 2'000), use("a", 1'000, 2'000, 1)}), SizeIs(2));
}

TEST(BypassWatch, ReportsPartsOfACardOnceAfterTwoConsecutiveSamples) {
  ContainerUse part = use("a", 1'000, 10);
  part.part_of_one_card = true;
  part.without_mps = 1;
  ContainerUse whole = use("b", 1'000, 10);
  whole.without_mps = 1;
  ContainerUse client = use("c", 1'000, 10);
  client.part_of_one_card = true;
  BypassWatch watch;
  const auto names = [&watch](const std::vector<ContainerUse>& uses) {
    std::string all;
    for (const ContainerUse& one : watch.step(uses)) all += one.owner.pod.name;
    return all;
  };
  EXPECT_EQ(names({part, whole, client}), "");
  EXPECT_EQ(names({part, whole, client}), "a");
  EXPECT_EQ(names({part, whole, client}), "");
  EXPECT_EQ(names({whole, client}), "");
  EXPECT_EQ(names({part}), "");
  EXPECT_EQ(names({part}), "a");
}

TEST(Watchdog, ForgetsRemovedContainers) {
  Watchdog watchdog;
  watchdog.step({use("a", 1'000, 2'000)});
  watchdog.step({use("a", 1'000, 2'000)});
  watchdog.step({});
  EXPECT_THAT(watchdog.over(), IsEmpty());
  EXPECT_THAT(watchdog.step({use("a", 1'000, 2'000)}), IsEmpty());
}

// A container with the library in it.
ContainerUse with_library(std::int64_t used, std::int64_t reserved) {
  ContainerUse container = use("a", 1'000, used);
  container.reserved = MiB(reserved);
  return container;
}

TEST(UncountedWatch, ReportsTheLeastOfThreeReadingsOnce) {
  UncountedWatch watch;
  const std::int64_t used[] = {900, 700, 800, 600, 600};
  const std::int64_t uncounted[] = {0, 0, 200, 100, 100};
  const std::size_t reported[] = {0, 0, 1, 0, 0};
  for (int i = 0; i < 5; ++i) {
    std::vector<ContainerUse> containers = {with_library(used[i], 500)};
    EXPECT_THAT(watch.step(containers, true), SizeIs(reported[i])) << i;
    EXPECT_EQ(containers[0].uncounted, MiB(uncounted[i])) << i;
  }
}

// Otherwise one reading that was made while a program allocated would become three.
TEST(UncountedWatch, KeepsItsResultUntilTheDriverIsReadAgain) {
  UncountedWatch watch;
  std::vector<ContainerUse> containers = {with_library(900, 500)};
  for (int i = 0; i < 5; ++i) EXPECT_THAT(watch.step(containers, i == 0), IsEmpty());
  EXPECT_EQ(containers[0].uncounted, MiB());
}

// Each process has modules and streams.
TEST(UncountedWatch, AllowsMoreForMoreProcesses) {
  for (const std::int32_t processes : {1, 3, 8, 100}) {
    const std::int64_t allowed = std::int64_t{64} * std::min(processes, 8);
    for (const std::int64_t uncounted : {allowed, allowed + 1}) {
      UncountedWatch watch;
      std::size_t reported = 0;
      for (int i = 0; i < 3; ++i) {
        std::vector<ContainerUse> containers = {with_library(uncounted, 0)};
        containers[0].processes = processes;
        reported += watch.step(containers, true).size();
      }
      EXPECT_EQ(reported, uncounted > allowed ? 1U : 0U) << processes << " processes";
    }
  }
}

TEST(UncountedWatch, LeavesOutSmallAmountsAndContainersWithoutTheLibrary) {
  UncountedWatch watch;
  std::vector<ContainerUse> containers = {with_library(564, 500), use("b", 1'000, 900)};
  for (int i = 0; i < 5; ++i) EXPECT_THAT(watch.step(containers, true), IsEmpty());
  EXPECT_EQ(containers[0].uncounted, MiB(64)) << "it is counted all the same";
  EXPECT_EQ(containers[1].uncounted, MiB());
}

}  // namespace
}  // namespace mgpu::plugin
