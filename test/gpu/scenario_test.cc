#include "test/gpu/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "test/gpu/machine.h"
#include "test/support/scratch_folder.h"

namespace mgpu::fake_gpu {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& yaml) {
  const auto parsed = parse_scenario(yaml);
  return parsed ? "" : parsed.error().message;
}

TEST(Scenario, IsAnH200UnlessItSaysOtherwise) {
  const auto state = parse_scenario("cards: [{uuid: GPU-1}]").value();
  EXPECT_STREQ(state->driver_release, "580.159.04");
  EXPECT_EQ(state->cuda_version, 13'000);
  EXPECT_EQ(state->device_count, 1);
  const CardState& card = state->cards[0];
  EXPECT_STREQ(card.model, "NVIDIA H200");
  EXPECT_EQ(card.memory, 143'771 * kMiB);
  // Measured on an H200 with 580.159.04: cuDeviceTotalMem is 143,155.9375 MiB.
  EXPECT_EQ(card.memory - card.reserved, 143'155 * kMiB + 960 * 1024);
  EXPECT_EQ(card.multiprocessors, 132);
  EXPECT_EQ(card.compute_major, 9);
  EXPECT_EQ(card.compute_minor, 0);
}

TEST(Scenario, DescribesEachCard) {
  const auto state = parse_scenario(R"(
driver: {release: 535.43.02, cuda: 12020}
cards:
  - {uuid: GPU-a, links: X NV4, health: {lost: true, recoveryAction: 2, remapFailed: true,
     fabricState: 3, fabricStatus: 9}}
  - {uuid: GPU-b, model: Tesla T4, memoryMiB: 15360, reservedMiB: 0.5, idleMiB: 0, contextMiB: 100,
     contextHiddenMiB: 0, multiprocessors: 40, computeCapability: 7.5, mig: true, xids: [31, 79],
     links: PIX X, instances: [{uuid: MIG-1, model: T4 MIG, memoryMiB: 1024, multiprocessors: 4,
                                gi: 3, ci: 1}]}
)")
                         .value();
  EXPECT_STREQ(state->driver_release, "535.43.02");
  EXPECT_EQ(state->cuda_version, 12'020);
  EXPECT_EQ(state->device_count, 3);
  const CardState& card = state->cards[1];
  EXPECT_STREQ(card.model, "Tesla T4");
  EXPECT_EQ(card.reserved, kMiB / 2);
  EXPECT_EQ(card.context_charged, 100 * kMiB);
  EXPECT_EQ(card.multiprocessors, 40);
  EXPECT_EQ(card.compute_major, 7);
  EXPECT_EQ(card.compute_minor, 5);
  EXPECT_EQ(card.is_mig, 1);
  EXPECT_EQ(card.xid_count, 2);
  EXPECT_EQ(card.xids[1], 79U);
  EXPECT_STREQ(card.links[0].text, "PIX");
  const CardState& instance = state->cards[2];
  EXPECT_STREQ(instance.uuid, "MIG-1");
  EXPECT_STREQ(instance.model, "T4 MIG");
  EXPECT_EQ(instance.parent, 1);
  EXPECT_EQ(instance.memory, 1024 * kMiB);
  EXPECT_EQ(instance.reserved, 0U);
  EXPECT_EQ(instance.context_charged, 100 * kMiB);
  EXPECT_EQ(instance.multiprocessors, 4);
  EXPECT_EQ(instance.compute_major, 7);
  EXPECT_EQ(instance.gpu_instance, 3);
  EXPECT_EQ(instance.compute_instance, 1);
  const CardState& first = state->cards[0];
  EXPECT_STREQ(first.links[1].text, "NV4");
  EXPECT_EQ(first.health.lost, 1U);
  EXPECT_EQ(first.health.recovery_action, 2U);
  EXPECT_EQ(first.health.remap_failed, 1U);
  EXPECT_EQ(first.health.fabric_state, 3U);
  EXPECT_EQ(first.health.fabric_status, 9U);
}

TEST(Scenario, IsRefusedInOneSentence) {
  EXPECT_EQ(refusal("cards: []"), "cards must have 1 to 16 entries, found none");
  EXPECT_EQ(refusal("{}"), "cards must be a list, found nothing");
  EXPECT_EQ(refusal("[]"), "the file must be a map with driver, time, processes, cards");
  EXPECT_EQ(refusal("card: 1"),
            "the file has an unknown field \"card\", expected driver, time, processes, cards");
  EXPECT_EQ(refusal("time: fast"), "time must be real or virtual, found \"fast\"");
  EXPECT_EQ(refusal("processes: 2"), "processes needs time: virtual");
  EXPECT_EQ(refusal("{time: virtual, processes: 0}"),
            "processes must be a whole number from 1 to 256, found \"0\"");
  EXPECT_THAT(refusal("cards: [{uuid: GPU-1, memory: 1}]"),
              HasSubstr("cards[0] has an unknown field \"memory\", expected uuid, model,"));
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, memoryMiB: 268435457}]"),
            "cards[0].memoryMiB must be a whole number from 1 to 268435456, found \"268435457\"");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1}, {uuid: GPU-1}]"),
            "the uuid of each card and instance must be unique, found \"GPU-1\" twice");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, mig: true, instances: [{uuid: GPU-1, model: A, "
                    "memoryMiB: 1}]}]"),
            "the uuid of each card and instance must be unique, found \"GPU-1\" twice");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, instances: []}]"),
            "cards[0].instances needs cards[0].mig: true");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, mig: true, instances: [{uuid: MIG-1, model: A}]}]"),
            "cards[0].instances[0].memoryMiB must be a whole number from 1 to 268435456, found "
            "nothing");
  for (const char* const links :
       {"X", "X NV0", "X NV19", "X NV2x", "X SYS SYS", "SYS X", "X nv2"}) {
    EXPECT_EQ(refusal(std::string("cards: [{uuid: GPU-1, links: ") + links + "}, {uuid: GPU-2}]"),
              "cards[0].links must have 2 words, of which number 1 is X and each other one PIX, "
              "PXB, PHB, NODE, SYS, or NV1 to NV18 with \"s\" or \"?\" or nothing after it, found "
              "\"" +
                  std::string(links) + "\"");
  }
  EXPECT_EQ(
      refusal("cards: [{uuid: GPU-1, memoryMiB: 100, mig: true, instances: ["
              "{uuid: MIG-1, model: A, memoryMiB: 60}, {uuid: MIG-2, model: A, memoryMiB: 41}]}]"),
      "cards[0].instances must have at most the 100 MiB of the card together, found 101 MiB");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, health: {lost: maybe}}]"),
            "cards[0].health.lost must be true or false, found \"maybe\"");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, health: {hot: true}}]"),
            "cards[0].health has an unknown field \"hot\", expected lost, recoveryAction, "
            "remapFailed, fabricState, fabricStatus");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, reservedMiB: nan}]"),
            "cards[0].reservedMiB must be a number from 0 to 143771, found \"nan\"");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-1, xids: [0]}]"),
            "cards[0].xids[0].xid must be a whole number from 1 to 999, found \"0\"");
  EXPECT_EQ(refusal("cards: [{uuid: GPU-" + std::string(70, '1') + "}]"),
            "cards[0].uuid must be a text of 1 to 63 bytes, found 74 bytes");
  EXPECT_NE(refusal("cards: ["), "");
}

TEST(Scenario, IsChangedWhileItRunsOrNotAtAll) {
  const test::ScratchFolder folder;
  const std::string path = folder.path("machine");
  EXPECT_TRUE(
      create_machine("cards: [{uuid: GPU-1, mig: true, instances: [{uuid: MIG-1, model: A, "
                     "memoryMiB: 1}]}]",
                     path));
  std::string why;
  const auto machine = Machine::open(path, why);
  const auto refused = [&](const std::string& yaml, const std::string& uuid = "GPU-1") {
    const auto changed = change_card(yaml, path, uuid);
    return changed ? "" : changed.error().message;
  };
  EXPECT_EQ(refused("{health: {lost: true}, xids: [0]}"),
            "the change: xids[0].xid must be a whole number from 1 to 999, found \"0\"");
  EXPECT_EQ(refused("{memoryMiB: 1}"),
            "the change: the file has an unknown field \"memoryMiB\", expected health, xids");
  for (const std::string uuid : {"GPU-2", "MIG-1"}) {
    EXPECT_EQ(refused("{health: {lost: true}}", uuid),
              "the machine \"" + path + "\" has no card \"" + uuid + "\"");
  }
  EXPECT_FALSE(machine->is_lost(0));
  EXPECT_EQ(refused("{health: {lost: true}}"), "");
  EXPECT_TRUE(machine->is_lost(0));
  EXPECT_TRUE(machine->is_lost(1)) << "its MIG device";
  EXPECT_EQ(refused("{xids: [79]}"), "");
  EXPECT_TRUE(machine->is_lost(0)) << "it says nothing about that";
  EXPECT_EQ(refused("{health: {}}"), "");
  EXPECT_FALSE(machine->is_lost(0));
}

TEST(Scenario, ThatCannotBeWrittenSaysWhere) {
  const test::ScratchFolder folder;
  const auto created = create_machine("cards: [{uuid: GPU-1}]", folder.path("none/machine"));
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, HasSubstr("none/machine.new\": No such file"));
  EXPECT_EQ(create_machine("cards: []", folder.path("machine")).error().message,
            "the scenario: cards must have 1 to 16 entries, found none");
}

}  // namespace
}  // namespace mgpu::fake_gpu
