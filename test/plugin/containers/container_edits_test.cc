// The edits of a bound container, with and without enforcement.
#include "plugin/containers/container_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Record share() {
  return test::started(test::allocated(test::device_ids(30), "a"), "x", 1);
}

Record whole_cards() {
  Record record = test::started(test::allocated(test::device_ids(200), "a"), "x", 1);
  record.cards[0].share = {Percent(100), MiB(test::kCardMemory)};
  record.cards.push_back({CardIndex(2), CardUuid("GPU-2"), record.cards[0].share});
  return record;
}

Inventory::Dependencies inventory_dependencies() {
  return {.load_known = [] { return KnownCards(); },
          .save_known = [](const KnownCards&) { return true; },
          .on_change = [](const InventoryState&, const InventoryState&) {},
          .now = [] { return "2026-01-02T00:00:00Z"; }};
}

class ContainerEditsTest : public testing::Test {
 public:
  ContainerEditsTest() {
    EXPECT_TRUE(set_log_level("off"));
    inventory_.start();
    EXPECT_TRUE(test::comes_true([this] { return inventory_.state().read; }));
  }
  MpsOptions no_control() const {
    MpsOptions options;
    options.control = folder_.path("no-such-program");
    options.run_dir = folder_.path();
    return options;
  }

  test::ScratchFolder folder_;
  Inventory inventory_{std::make_unique<test::ScriptedCards>(test::found_cards(3)),
                       inventory_dependencies()};
};

TEST_F(ContainerEditsTest, AShareHasTheDeviceNodesOfItsCardOnly) {
  const auto edits = edits_of(share(), inventory_, {});
  ASSERT_TRUE(edits) << edits.error().message;
  EXPECT_THAT(edits->devices, ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"}));
  EXPECT_EQ(edits->environment.at("MGPU_CARDS"), "1");
  EXPECT_EQ(edits->environment.at("MGPU_CORE_PERCENT"), "30");
  EXPECT_THAT(edits->mounts, IsEmpty());
}

TEST_F(ContainerEditsTest, RefusesACardThatIsNotFoundAnyMore) {
  Record record = share();
  record.cards[0].uuid = CardUuid("GPU-7");
  EXPECT_THAT(edits_of(record, inventory_, {}).error().message,
              HasSubstr("card \"GPU-7\" is not found any more"));
}

TEST(ContainerEditsOfACardWithoutDevicesTest, AreRefused) {
  EXPECT_TRUE(set_log_level("off"));
  FoundCards cards = test::found_cards(3);
  cards.cards[1].nodes.clear();
  Inventory inventory(std::make_unique<test::ScriptedCards>(cards), inventory_dependencies());
  inventory.start();
  ASSERT_TRUE(test::comes_true([&] { return inventory.state().read; }));
  EXPECT_EQ(
      edits_of(share(), inventory, {}).error().message,
      "card \"GPU-1\" has no device node, and a container needs at least one; its source must "
      "list one");
}

TEST_F(ContainerEditsTest, WholeCardsHaveAllTheirDeviceNodes) {
  const auto edits = edits_of(whole_cards(), inventory_, {});
  ASSERT_TRUE(edits) << edits.error().message;
  EXPECT_THAT(edits->devices, ElementsAre(DeviceNode{"/dev/nvidia1", "/dev/nvidia1"},
                                          DeviceNode{"/dev/nvidia2", "/dev/nvidia2"}));
  EXPECT_EQ(edits->environment.at("MGPU_CARD_UUIDS"), "GPU-1,GPU-2");
}

TEST_F(ContainerEditsTest, AShareHasThePipeDirectoryOfItsDaemonBeforeTheDaemonRuns) {
  const Mps mps(no_control());
  const auto edits = edits_of(share(), inventory_, {.mps = &mps});
  ASSERT_TRUE(edits) << edits.error().message;
  EXPECT_THAT(edits->mounts,
              ElementsAre(Mount{folder_.path("mps/GPU-1/client"), "/run/mgpu/mps", true, true}));
  EXPECT_EQ(edits->environment.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
}

TEST_F(ContainerEditsTest, AShareThatTheDriverLimitsHasAHook) {
  const LimitHook hook{"/opt/mgpu-set-limits", "/run/mgpu/limits.sock"};
  const auto edits = edits_of(share(), inventory_, {.driver_hook = &hook});
  ASSERT_TRUE(edits) << edits.error().message;
  const Hook expected{
      .name = "createRuntime",
      .path = "/opt/mgpu-set-limits",
      .arguments = {"/opt/mgpu-set-limits", "/run/mgpu/limits.sock", share().id.str()},
      .environment = {},
      .timeout_seconds = 15};
  EXPECT_THAT(edits->hooks, ElementsAre(expected));
}

// kubelet can start a container without the plugin.
TEST_F(ContainerEditsTest, AShareOfMpsHasAHookThatAsksItsDaemon) {
  const Mps mps(no_control());
  const LimitHook hook{"/opt/mgpu-set-limits"};
  const auto edits = edits_of(share(), inventory_, {.mps = &mps, .mps_hook = &hook});
  ASSERT_TRUE(edits) << edits.error().message;
  const Hook expected{
      .name = "createRuntime",
      .path = "/opt/mgpu-set-limits",
      .arguments = {"/opt/mgpu-set-limits", "--mps", folder_.path("mps/GPU-1/client/control")},
      .environment = {},
      .timeout_seconds = 15};
  EXPECT_THAT(edits->hooks, ElementsAre(expected));
  EXPECT_THAT(edits_of(whole_cards(), inventory_, {.mps = &mps, .mps_hook = &hook})->hooks,
              IsEmpty());
}

TEST_F(ContainerEditsTest, AShareThatMpsAndTheDriverLimitHasTheHooksOfBoth) {
  const Mps mps(no_control());
  const LimitHook asks{"/opt/mgpu-set-limits"};
  const LimitHook sets{"/opt/mgpu-set-limits", "/run/mgpu/limits.sock"};
  const auto edits =
      edits_of(share(), inventory_, {.mps = &mps, .mps_hook = &asks, .driver_hook = &sets});
  ASSERT_TRUE(edits) << edits.error().message;
  ASSERT_THAT(edits->hooks, SizeIs(2));
  EXPECT_EQ(edits->hooks[0].arguments[1], "/run/mgpu/limits.sock");
  EXPECT_EQ(edits->hooks[1].arguments[1], "--mps");
  EXPECT_EQ(edits->environment.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
}

TEST_F(ContainerEditsTest, TheEnvironmentSaysWhatTheContainerCannotExceed) {
  const Mps mps(no_control());
  const LimitHook hook{"/opt/mgpu-set-limits", "/run/mgpu/limits.sock"};
  const auto enforced = [&](const Record& record, const ShareLimits& by) {
    const auto edits = edits_of(record, inventory_, by);
    return edits ? edits->environment.at("MGPU_ENFORCED") : edits.error().message;
  };
  Record parts = whole_cards();
  for (CardGrant& card : parts.cards) card.share.core = Percent(50);
  EXPECT_EQ(enforced(share(), {}), "none");
  EXPECT_EQ(enforced(share(), {.driver_hook = &hook}), "memory");
  EXPECT_EQ(enforced(share(), {.mps = &mps}), "memory,compute");
  EXPECT_EQ(enforced(parts, {.driver_hook = &hook}), "memory");
  EXPECT_EQ(enforced(parts, {.mps = &mps}), "none");
  EXPECT_EQ(enforced(share(), {.mps = &mps, .driver_hook = &hook}), "memory,compute");
  EXPECT_EQ(enforced(parts, {.mps = &mps, .driver_hook = &hook}), "memory");
  EXPECT_EQ(enforced(whole_cards(), {}), "memory,compute");
}

TEST_F(ContainerEditsTest, AShareWithoutAHookCannotBeLimited) {
  const LimitHook hook{"", "", "the disk is full"};
  EXPECT_EQ(edits_of(share(), inventory_, {.driver_hook = &hook}).error().message,
            "the disk is full");
}

TEST_F(ContainerEditsTest, WholeCardsHaveNoHook) {
  const LimitHook hook{"/opt/mgpu-set-limits", "/run/mgpu/limits.sock"};
  EXPECT_THAT(edits_of(whole_cards(), inventory_, {.driver_hook = &hook})->hooks, IsEmpty());
}

TEST_F(ContainerEditsTest, WholeCardsNeedNoEnforcement) {
  const Mps mps(no_control());
  const auto edits = edits_of(whole_cards(), inventory_, {.mps = &mps});
  ASSERT_TRUE(edits) << edits.error().message;
  EXPECT_EQ(edits->devices.size(), 2U);
}

TEST_F(ContainerEditsTest, OneWholeCardNeedsNoEnforcement) {
  const Mps mps(no_control());
  Record record = whole_cards();
  record.cards.resize(1);
  const auto edits = edits_of(record, inventory_, {.mps = &mps});
  ASSERT_TRUE(edits) << edits.error().message;
  EXPECT_EQ(edits->devices.size(), 1U);
}

}  // namespace
}  // namespace mgpu::plugin
