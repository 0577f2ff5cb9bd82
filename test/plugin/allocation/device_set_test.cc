#include "plugin/allocation/device_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plugin/allocation/limits.h"

namespace mgpu::plugin {
namespace {

using Ids = std::vector<std::string>;
using testing::ElementsAre;
using testing::HasSubstr;

DeviceSet set_of(const Ids& ids) {
  return DeviceSet::of(ids).value();
}

TEST(DeviceSet, DoesNotDependOnTheOrderOfIds) {
  EXPECT_EQ(set_of({"c9", "c3", "c6"}), set_of({"c3", "c6", "c9"}));
  EXPECT_EQ(set_of({"c9", "c3", "c6"}).hash(), set_of({"c6", "c9", "c3"}).hash());
}

TEST(DeviceSet, CountsARepeatedIdOnce) {
  EXPECT_THAT(set_of({"c1", "c0", "c1"}).ids(), ElementsAre("c0", "c1"));
  EXPECT_EQ(set_of({"c1", "c0", "c1"}).size(), 2);
}

// echo -n c0,c1 | sha256sum
TEST(DeviceSet, HashIsAPrefixOfTheSha256OfTheSortedIds) {
  EXPECT_EQ(set_of({"c1", "c0"}).hash(), "0547201a83ca699d");
}

TEST(DeviceSet, HashDistinguishesIdsThatJoinAlike) {
  EXPECT_NE(set_of({"a", "b"}).hash(), set_of({"ab"}).hash());
  EXPECT_NE(set_of({"c1", "c11"}).hash(), set_of({"c1", "c1x"}).hash());
}

TEST(DeviceSet, RefusesInvalidIds) {
  const Ids too_many(kDevicesPerRequestMax + 1, "x");
  EXPECT_THAT(DeviceSet::of(Ids{}).error().message, HasSubstr("no device ids"));
  EXPECT_THAT(DeviceSet::of(too_many).error().message, HasSubstr("6401 device ids; at most 6400"));
  EXPECT_THAT(DeviceSet::of(Ids{""}).error().message, HasSubstr("must have 1 to 63 characters"));
  EXPECT_THAT(DeviceSet::of(Ids{std::string(64, 'x')}).error().message,
              HasSubstr("must have 1 to 63 characters"));
}

TEST(MemoryDeviceIds, AreUniqueAndAsShortAsPossible) {
  std::set<std::string> seen;
  std::size_t bytes = 0;
  constexpr std::int64_t kCount = 64 * 64 + 100;
  for (std::int64_t n = 0; n < kCount; ++n) {
    const std::string id = memory_device_id(n);
    EXPECT_TRUE(seen.insert(id).second) << id;
    bytes += 13 + id.size();
  }
  EXPECT_EQ(memory_device_id(63).size(), 1U);
  EXPECT_EQ(memory_device_id(64).size(), 2U);
  EXPECT_EQ(memory_list_bytes(kCount), bytes);
}

// Devices with ids of up to three characters from 64: 64 * 14 + 4096 * 15 + n * 16 bytes.
TEST(MemoryDeviceIds, ListSizeIsThatOfKubeletsMessage) {
  EXPECT_EQ(memory_list_bytes(0), 0U);
  EXPECT_EQ(memory_list_bytes(1), 14U);
  EXPECT_EQ(memory_list_bytes(64), 64U * 14);
  EXPECT_EQ(memory_list_bytes(130'040), 64U * 14 + 4032U * 15 + (130'040U - 4096) * 16);
}

}  // namespace
}  // namespace mgpu::plugin
