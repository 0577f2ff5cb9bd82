#include "plugin/allocation/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mgpu::plugin {
namespace {

using testing::HasSubstr;

std::vector<CardFacts> cards(const std::vector<std::string>& healths) {
  std::vector<CardFacts> all;
  for (const std::string& health : healths) {
    const auto index = static_cast<std::int32_t>(all.size());
    all.push_back({.index = CardIndex(index),
                   .uuid = CardUuid("GPU-" + std::to_string(index)),
                   .model = "V100",
                   .memory = MiB(32510),
                   .health = health});
  }
  return all;
}

Record held(std::int32_t card, std::int64_t first, std::int64_t count) {
  std::vector<std::string> ids;
  for (std::int64_t n = first; n < first + count; ++n) ids.push_back(core_device_id(n));
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.owner = Owner{{"a", "x"}, PodUid("u"), "app"};
  record.cards = {{CardIndex(card), CardUuid("GPU-" + std::to_string(card)), {Percent(count), {}}}};
  return record;
}

bool has(const std::vector<std::string>& ids, std::int64_t n) {
  return std::ranges::find(ids, core_device_id(n)) != ids.end();
}

TEST(OfferedDevices, AreAHundredPerHealthyCard) {
  EXPECT_EQ(offered_core_ids(cards({"Healthy", "Healthy", "Healthy", "Healthy"}), {}).size(), 400U);
  EXPECT_EQ(offered_core_ids(cards({"Healthy", "XID 79", "Healthy", "Lost"}), {}).size(), 200U);
  EXPECT_TRUE(offered_core_ids(cards({"MIG"}), {}).empty());
  EXPECT_TRUE(offered_core_ids({}, {}).empty());
}

TEST(OfferedDevices, OfFourV100sAre130040MiB) {
  const auto four = cards({"Healthy", "Healthy", "Healthy", "Healthy"});
  EXPECT_EQ(healthy_memory(four), 130'040);
  EXPECT_EQ(offered_memory_ids(four).size(), 130'040U);
  EXPECT_EQ(healthy_memory(cards({"Healthy", "Lost"})), 32'510);
}

TEST(OfferedDevices, StayForContainersOnHealthyCards) {
  const std::vector<Record> records = {held(0, 150, 50)};
  const auto ids = offered_core_ids(cards({"Healthy", "XID 79"}), records);
  EXPECT_EQ(ids.size(), 100U);
  for (std::int64_t n = 150; n < 200; ++n) EXPECT_TRUE(has(ids, n)) << n;
}

TEST(OfferedDevices, OfContainersOnUnhealthyCardsAreWithdrawnFirst) {
  const std::vector<Record> records = {held(1, 0, 60), held(0, 60, 40)};
  const auto ids = offered_core_ids(cards({"Healthy", "XID 79"}), records);
  EXPECT_EQ(ids.size(), 100U);
  for (std::int64_t n = 0; n < 60; ++n) EXPECT_FALSE(has(ids, n)) << n;
}

TEST(OfferedDevices, ReturnWithTheCard) {
  const std::vector<Record> records = {held(1, 0, 60)};
  const auto all = cards({"Healthy", "Healthy"});
  EXPECT_EQ(offered_core_ids(all, records), offered_core_ids(all, {}));
}

TEST(MemoryList, IsRefusedWhereKubeletWouldDropIt) {
  EXPECT_TRUE(check_memory_list(130'040));
  EXPECT_TRUE(check_memory_list(262'000));
  EXPECT_THAT(check_memory_list(655'360).error().message,
              testing::AllOf(HasSubstr("655360 MiB"), HasSubstr("at most 4194304"),
                             HasSubstr("--memory-resource=node-status")));
}

}  // namespace
}  // namespace mgpu::plugin
