#include "plugin/monitor/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// A record of pod "a" on card 0.
Record placed(const std::string& container, ContainerKind kind, std::int32_t position) {
  Record made = record("a", container, {grant(0, 50, 8'000)});
  made.owner->kind = kind;
  made.owner->position = position;
  return made;
}

TEST(Join, HasOneEntryForEachContainerAndCard) {
  Record not_started;
  not_started.cards = {grant(0, 10, 100)};
  const Joined joined = join({record("a", "app", {grant(0, 50, 8'000), grant(1, 50, 8'000)}),
                              record("b", "app", {grant(1, 20, 1'000)}), not_started},
                             {}, {});
  ASSERT_THAT(joined.containers, SizeIs(3));
  EXPECT_EQ(joined.containers[1].grant.index, CardIndex(1));
  EXPECT_EQ(joined.containers[2].owner.pod.name, "b");
  for (const ContainerUse& use : joined.containers) {
    EXPECT_EQ(use.memory_used, MiB(0));
    EXPECT_EQ(use.processes, 0);
    EXPECT_FALSE(use.sm_percent);
  }
  EXPECT_THAT(joined.unmanaged, IsEmpty());
}

TEST(Join, SumsProcessesByContainerAndCard) {
  auto first = process(0, 11, 500, "a", "app");
  auto second = process(0, 12, 700, "a", "app");
  first.sm_percent = 30;
  second.sm_percent = 25.5;
  const Joined joined =
      join({record("a", "app", {grant(0, 50, 8'000), grant(1, 50, 8'000)}),
            record("a", "side", {grant(0, 50, 8'000)})},
           {first, second, process(1, 12, 40, "a", "app"), process(0, 13, 9, "a", "side")},
           names({{"a", "app"}, {"a", "side"}}));
  ASSERT_THAT(joined.containers, SizeIs(3));
  EXPECT_EQ(joined.containers[0].memory_used, MiB(1'200));
  EXPECT_EQ(joined.containers[0].processes, 2);
  EXPECT_EQ(joined.containers[0].sm_percent, 55.5);
  EXPECT_EQ(joined.containers[1].memory_used, MiB(40));
  EXPECT_FALSE(joined.containers[1].sm_percent);
  EXPECT_EQ(joined.containers[2].memory_used, MiB(9));
  EXPECT_THAT(joined.unmanaged, IsEmpty());
}

// The driver measures time, and a client of MPS computes on its part of the card.
TEST(Join, CountsTheTimeOfAClientOfMpsOnThePartThatItWasGiven) {
  auto client = process(0, 11, 500, "a", "app");
  client.sm_percent = 100;
  client.client = true;
  auto bypass = process(0, 12, 500, "b", "app");
  bypass.sm_percent = 50;
  auto whole = process(1, 13, 500, "c", "app");
  whole.sm_percent = 100;
  whole.client = true;
  const Joined joined =
      join({record("a", "app", {grant(0, 10, 8'000)}), record("b", "app", {grant(0, 10, 8'000)}),
            record("c", "app", {grant(1, 100, 8'000)})},
           {client, bypass, whole}, {});
  ASSERT_THAT(joined.containers, SizeIs(3));
  EXPECT_EQ(joined.containers[0].sm_percent, 10);
  EXPECT_EQ(joined.containers[1].sm_percent, 50);
  EXPECT_EQ(joined.containers[2].sm_percent, 100);
}

TEST(Join, UsesThePodsOnlyRecordWhileTheContainerIdIsUnknown) {
  const Joined joined =
      join({record("a", "app", {grant(0, 50, 8'000)}), record("a", "side", {grant(1, 50, 8'000)})},
           {process(0, 11, 500, "a", "app")}, {});
  EXPECT_EQ(joined.containers[0].memory_used, MiB(500));
  EXPECT_THAT(joined.unmanaged, IsEmpty());
}

TEST(Join, IsUnmanagedIfTheContainerIsAmbiguous) {
  const Joined joined =
      join({record("a", "app", {grant(0, 50, 8'000)}), record("a", "side", {grant(0, 50, 8'000)})},
           {process(0, 11, 500, "a", "app")}, {});
  EXPECT_EQ(joined.containers[0].memory_used, MiB(0));
  EXPECT_EQ(joined.containers[1].memory_used, MiB(0));
  EXPECT_THAT(joined.unmanaged, UnorderedElementsAre(Pair(card(0), MiB(500))));
}

// The room of an ordinary init container is that of the containers that follow it.
TEST(Join, AProcessOfAnUnknownContainerBelongsToTheContainersThatFollowTheInitContainers) {
  const struct {
    const char* what;
    std::vector<Record> records;
    std::string container;  // that has the process; empty: none
  } cases[] = {
      {"an init container and an app container",
       {placed("app", ContainerKind::kApp, 1), placed("init", ContainerKind::kInit, 0)},
       "app"},
      {"an init container and a sidecar that follows it",
       {placed("init", ContainerKind::kInit, 0), placed("side", ContainerKind::kSidecar, 1)},
       "side"},
      {"two init containers",
       {placed("first", ContainerKind::kInit, 0), placed("next", ContainerKind::kInit, 1)},
       "next"},
      {"a sidecar and an init container that follows it, and both run",
       {placed("side", ContainerKind::kSidecar, 0), placed("init", ContainerKind::kInit, 1)},
       ""},
      {"two app containers, and both run",
       {placed("app", ContainerKind::kApp, 0), placed("other", ContainerKind::kApp, 1)},
       ""},
  };
  for (const auto& one : cases) {
    const Joined joined = join(one.records, {process(0, 11, 500, "a", "ephemeral")}, {});
    std::string found;
    for (const ContainerUse& use : joined.containers) {
      if (use.processes > 0) found += use.owner.container;
    }
    EXPECT_EQ(found, one.container) << one.what;
    EXPECT_EQ(joined.unmanaged.size(), one.container.empty() ? 1U : 0U) << one.what;
  }
}

TEST(Join, FindsUnmanagedProcesses) {
  const Joined joined =
      join({record("a", "app", {grant(0, 50, 8'000)})},
           {process(0, 1, 100),                  // not in a pod
            process(0, 2, 200, "other", "app"),  // a pod without cards
            process(0, 3, 400, "a", "helper"),   // a container without cards of a pod with
            process(1, 4, 800, "a", "app"),      // on a card that it does not hold
            process(0, 5, 1'600, "a", "app")},   // none
           names({{"a", "app"}, {"a", "helper"}, {"other", "app"}}));
  EXPECT_THAT(joined.unmanaged,
              UnorderedElementsAre(Pair(card(0), MiB(700)), Pair(card(1), MiB(800))));
  EXPECT_EQ(joined.containers[0].memory_used, MiB(1'600));
}

TEST(Join, CountsAProcessWithUnknownMemory) {
  auto unknown = process(0, 1, 0, "a", "app");
  unknown.memory.reset();
  auto unmanaged = process(0, 2, 0);
  unmanaged.memory.reset();
  const Joined joined = join({record("a", "app", {grant(0, 50, 8'000)})}, {unknown, unmanaged},
                             names({{"a", "app"}}));
  EXPECT_EQ(joined.containers[0].processes, 1);
  EXPECT_EQ(joined.containers[0].memory_used, MiB(0));
  EXPECT_THAT(joined.unmanaged, UnorderedElementsAre(Pair(card(0), MiB(0))));
}

TEST(Join, CountsAContainerWithTwoRecordsOnce) {
  const Joined joined =
      join({record("a", "app", {grant(0, 50, 8'000)}), record("a", "app", {grant(0, 50, 8'000)})},
           {process(0, 11, 500, "a", "app")}, names({{"a", "app"}}));
  ASSERT_THAT(joined.containers, SizeIs(1));
  EXPECT_EQ(joined.containers[0].memory_used, MiB(500));
}

TEST(Join, IgnoresInvalidUtilization) {
  for (const double value :
       {-1.0, 100.5, 4294967295.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto bad = process(0, 1, 5, "a", "app");
    bad.sm_percent = value;
    auto good = process(0, 2, 5, "a", "app");
    good.sm_percent = 10;
    const std::vector<Record> records{record("a", "app", {grant(0, 50, 8'000)})};
    EXPECT_FALSE(join(records, {bad}, {}).containers[0].sm_percent) << value;
    EXPECT_EQ(join(records, {bad, good}, {}).containers[0].sm_percent, 10) << value;
  }
}

TEST(Join, LimitsUseToTheCard) {
  std::vector<ProcessSample> many;
  for (int pid = 1; pid <= 50; ++pid) {
    many.push_back(process(0, pid, MiB::kMax, "a", "app"));
    many.back().sm_percent = 90;
    many.push_back(process(0, pid, MiB::kMax));
  }
  const Joined joined = join({record("a", "app", {grant(0, 50, 8'000)})}, many, {});
  EXPECT_EQ(joined.containers[0].sm_percent, 100);
  EXPECT_GT(joined.containers[0].memory_used, MiB(8'000));
  EXPECT_GT(joined.unmanaged.at(card(0)), MiB(8'000));
}

// Every process is counted once, either for one container or as unmanaged.
TEST(Join, CountsEachProcessOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Record> records;
    std::vector<std::pair<std::string, std::string>> named;
    for (int i = 0; i < 12; ++i) {
      const std::string pod(1, static_cast<char>('a' + random() % 4));
      const std::string container = random() % 2 == 0 ? "app" : "side";
      records.push_back(record(pod, container, {grant(static_cast<int>(random() % 3), 10, 100)}));
      if (random() % 2 == 0) named.emplace_back(pod, container);
    }
    std::vector<ProcessSample> processes;
    std::int64_t total = 0;
    for (int pid = 1; pid <= 30; ++pid) {
      const std::string pod(1, static_cast<char>('a' + random() % 5));
      // With 1 MiB each, the memory of a container is the number of its processes.
      const bool equal = round % 2 == 0;
      const auto memory = equal ? 1 : static_cast<std::int64_t>(random() % 1'000);
      total += memory;
      processes.push_back(process(static_cast<int>(random() % 4), pid, memory,
                                  random() % 6 == 0 ? "" : pod,
                                  random() % 2 == 0 ? "app" : "side"));
    }
    const Joined joined = join(records, processes, names(named));
    std::int64_t sum = 0;
    for (const auto& [uuid, memory] : joined.unmanaged) sum += memory.value();
    for (const ContainerUse& use : joined.containers) {
      sum += use.memory_used.value();
      if (round % 2 == 0) EXPECT_EQ(use.processes, use.memory_used.value());
    }
    EXPECT_EQ(sum, total);
  }
}

TEST(Join, KnowsTheInitContainersThatOthersHaveFollowed) {
  const auto followed = [](const std::vector<Record>& records) {
    std::vector<bool> all;
    for (const ContainerUse& use : join(records, {}, {}).containers) all.push_back(use.followed);
    return all;
  };
  const Record first = placed("first", ContainerKind::kInit, 0);
  const Record sidecar = placed("sidecar", ContainerKind::kSidecar, 1);
  Record app = placed("app", ContainerKind::kApp, 2);
  EXPECT_EQ(followed({first}), (std::vector{false}));
  EXPECT_EQ(followed({first, sidecar, app}), (std::vector{true, false, false}));
  app.owner->uid = PodUid("uid-of-another");
  EXPECT_EQ(followed({first, app}), (std::vector{false, false}));
  app = placed("app", ContainerKind::kApp, 2);
  app.cards = {grant(1, 50, 8'000)};
  EXPECT_EQ(followed({first, app}), (std::vector{true, false}));
}

}  // namespace
}  // namespace mgpu::plugin
