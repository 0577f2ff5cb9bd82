#include "plugin/monitor/held_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Container "app" of pod ml/`pod` on card 0.
ContainerUse use_of(const std::string& pod, std::int32_t processes = 0,
                    std::optional<double> percent = {}, std::int64_t memory = 0) {
  ContainerUse use;
  use.owner = *record(pod, "app", {}).owner;
  use.owner.kind = ContainerKind::kApp;
  use.grant = grant(0, 40, 8'000);
  use.processes = processes;
  use.sm_percent = percent;
  use.memory_used = MiB(memory);
  return use;
}

ContainerUse part_of(const std::string& container, ContainerKind kind, std::int32_t position,
                     std::int32_t processes = 0) {
  ContainerUse use = use_of("a", processes);
  use.owner.container = container;
  use.owner.kind = kind;
  use.owner.position = position;
  return use;
}

const ReadCards kMeasured = {{card(0), KnownIdle::kWithoutValue}};
const ReadCards kOfServer = {{card(0), KnownIdle::kWithoutProcess}};
const ReadCards kNotMeasured = {{card(0), KnownIdle::kNobody}};

ReportedPods reported(bool finished = false) {
  ReportedPods pods{.listed = true, .pods = {}};
  pods.pods[PodUid("uid-a")] = {finished, kube::PodOwner{"Job", "train"}};
  return pods;
}

std::vector<std::string> containers(const std::vector<HeldShare>& held) {
  std::vector<std::string> names;
  for (const HeldShare& share : held) names.push_back(share.container.container);
  return names;
}

TEST(HeldShares, HaveTheOwnerOfThePod) {
  const auto held = held_shares({use_of("a"), use_of("unknown", 1)}, kMeasured, reported());
  ASSERT_THAT(held, SizeIs(2));
  EXPECT_EQ(held[0].pod_owner, (kube::PodOwner{"Job", "train"}));
  EXPECT_EQ(held[1].pod_owner, std::nullopt);
}

TEST(HeldShares, AreHeldUntilThePodHasEndedAndHasNoProcess) {
  const struct {
    const char* what;
    std::int32_t processes;
    ReportedPods pods;
    bool held;
  } cases[] = {
      {"a pod that runs", 0, reported(), true},
      {"a pod that has finished", 0, reported(true), false},
      {"a pod that has finished, with a process", 1, reported(true), true},
      {"a pod that is gone", 0, {.listed = true, .pods = {}}, false},
      {"a pod that is gone, with a process", 1, {.listed = true, .pods = {}}, true},
      {"a pod before the first list", 0, {.listed = false, .pods = {}}, true},
  };
  for (const auto& one : cases) {
    const auto held = held_shares({use_of("a", one.processes)}, kMeasured, one.pods);
    EXPECT_EQ(held.size(), one.held ? 1U : 0U) << one.what;
  }
}

TEST(HeldShares, OfAnInitContainerEndWithTheNextContainer) {
  const auto first = part_of("first", ContainerKind::kInit, 0);
  const auto second = part_of("second", ContainerKind::kInit, 1);
  const auto app = part_of("app", ContainerKind::kApp, 2);
  EXPECT_THAT(containers(held_shares({first}, kMeasured, reported())), ElementsAre("first"));
  EXPECT_THAT(containers(held_shares({first, second}, kMeasured, reported())),
              ElementsAre("second"));
  EXPECT_THAT(containers(held_shares({first, second, app}, kMeasured, reported())),
              ElementsAre("app"));
  // The pod was started again after a restart of the node.
  const auto again = part_of("first", ContainerKind::kInit, 0, 1);
  EXPECT_THAT(containers(held_shares({again, second, app}, kMeasured, reported())),
              ElementsAre("first", "app"));
}

TEST(HeldShares, OfASidecarEndWithThePod) {
  const auto side = part_of("side", ContainerKind::kSidecar, 0);
  const auto app = part_of("app", ContainerKind::kApp, 1);
  EXPECT_THAT(containers(held_shares({side, app}, kMeasured, reported())),
              ElementsAre("side", "app"));
}

TEST(HeldShares, HaveWhatTheDriverMeasured) {
  const struct {
    const char* what;
    ContainerUse use;
    ReadCards cards;
    std::optional<double> percent;
    std::optional<MiB> memory;
  } cases[] = {
      {"a sample", use_of("a", 1, 12.5, 700), kMeasured, 12.5, MiB(700)},
      {"a process that did not use the card", use_of("a", 1, {}, 700), kMeasured, 0, MiB(700)},
      {"no process", use_of("a"), kMeasured, 0, MiB(0)},
      {"a process without a sample", use_of("a", 1, {}, 700), kNotMeasured, {}, MiB(700)},
      {"one of several processes has a sample", use_of("a", 2, 5, 700), kNotMeasured, 5, MiB(700)},
      {"no process where nothing is measured", use_of("a"), kNotMeasured, {}, MiB(0)},
      {"a client of MPS on a busy card", use_of("a", 1, {}, 700), kOfServer, {}, MiB(700)},
      {"a client of MPS with a sample", use_of("a", 1, 5, 700), kOfServer, 5, MiB(700)},
      {"no process on a busy card of MPS", use_of("a"), kOfServer, 0, MiB(0)},
      {"a process without memory", use_of("a", 1, 5), kMeasured, 5, {}},
      {"a card that did not answer", use_of("a", 1, 5, 700), {}, {}, {}},
  };
  for (const auto& one : cases) {
    const auto held = held_shares({one.use}, one.cards, reported());
    ASSERT_THAT(held, SizeIs(1));
    EXPECT_EQ(held[0].sm_percent, one.percent) << one.what;
    EXPECT_EQ(held[0].memory, one.memory) << one.what;
  }
}

TEST(HeldShares, AreNoneWithoutRecords) {
  EXPECT_THAT(held_shares({}, kMeasured, reported()), IsEmpty());
}

}  // namespace
}  // namespace mgpu::plugin
