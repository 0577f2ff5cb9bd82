#include "extender/ledger/node_slots.h"

#include <gtest/gtest.h>

#include "extender/ledger/node_record.h"

namespace mgpu::extender {
namespace {

TEST(NodeSlots, AreSmallNumbersThatLeadToTheirRecords) {
  NodeSlots slots;
  NodeRecord first;
  NodeRecord second;
  EXPECT_EQ(slots.take(first), 0u);
  EXPECT_EQ(slots.take(second), 1u);
  EXPECT_EQ(slots.record(0), &first);
  EXPECT_EQ(slots.record(1), &second);
  EXPECT_EQ(slots.size(), 2u);
}

TEST(NodeSlots, AVersionRisesWithEveryChangeOfItsNodeOnly) {
  NodeSlots slots;
  NodeRecord record;
  const NodeSlot changed = slots.take(record);
  const NodeSlot other = slots.take(record);
  const auto before = slots.version(changed);
  EXPECT_GT(before, 0u);
  slots.changed(changed);
  EXPECT_GT(slots.version(changed), before);
  EXPECT_EQ(slots.version(other), before);
}

TEST(NodeSlots, TheNextInASlotHasAVersionOfItsOwn) {
  NodeSlots slots;
  NodeRecord record;
  const NodeSlot slot = slots.take(record);
  slots.changed(slot);
  const auto last = slots.version(slot);
  slots.give_back(slot);
  EXPECT_EQ(slots.record(slot), nullptr);
  EXPECT_EQ(slots.take(record), slot);
  EXPECT_GT(slots.version(slot), last);
  EXPECT_EQ(slots.size(), 1u);
}

}  // namespace
}  // namespace mgpu::extender
