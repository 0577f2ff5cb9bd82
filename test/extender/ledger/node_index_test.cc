#include "extender/ledger/node_index.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "extender/ledger/node_record.h"

namespace mgpu::extender {
namespace {

// Names of every length up to 40 that are equal except for one character, at each position.
std::vector<std::string> similar_names() {
  std::vector<std::string> names = {""};
  for (std::size_t length = 1; length <= 40; ++length) {
    names.emplace_back(length, 'n');
    for (std::size_t at = 0; at < length; ++at) {
      names.emplace_back(length, 'n');
      names.back()[at] = '\xE9';
    }
  }
  return names;
}

struct NodeIndexTest : testing::Test {
  NodeIndex index;
  NodeRecord first;
  NodeRecord second;
};

TEST_F(NodeIndexTest, SimilarNamesAreDistinct) {
  const auto names = similar_names();
  std::deque<NodeRecord> records(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) index.insert(names[i], records[i]);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(index.find(names[i]), i) << names[i];
}

TEST_F(NodeIndexTest, PrefixesAndLongerNamesAreNotFound) {
  index.insert("gpu-node-1234", first);
  for (const char* name : {"", "gpu-node-123", "gpu-node-12345", "pu-node-1234", "gpu-node-1235"})
    EXPECT_EQ(index.find(name), std::nullopt) << name;
}

TEST_F(NodeIndexTest, NameIsFoundAsPartOfAnotherText) {
  index.insert("gpu-node-1", first);
  const std::string text = R"(["gpu-node-1","gpu-node-2"])";
  EXPECT_EQ(index.find(std::string_view(text).substr(2, 10)), 0u);
  EXPECT_EQ(index.find(std::string_view(text).substr(15, 10)), std::nullopt);
}

TEST_F(NodeIndexTest, ErasedNameIsNotFound) {
  index.insert("n1", first);
  index.insert("n2", second);
  index.erase("n1");
  EXPECT_EQ(index.find("n1"), std::nullopt);
  EXPECT_EQ(index.find("n2"), 1u);
}

TEST_F(NodeIndexTest, SlotsAreSmallNumbersOfTheRecords) {
  EXPECT_EQ(index.insert("n1", first), 0u);
  EXPECT_EQ(index.insert("n2", second), 1u);
  EXPECT_EQ(index.record(0), &first);
  EXPECT_EQ(index.record(1), &second);
  EXPECT_EQ(index.size(), 2u);
}

TEST_F(NodeIndexTest, VersionIncreasesWithChangesOfItsNodeOnly) {
  const NodeSlot changed = index.insert("n1", first);
  const NodeSlot other = index.insert("n2", second);
  const auto before = index.version(changed);
  EXPECT_GT(before, 0u);
  index.changed(changed);
  EXPECT_GT(index.version(changed), before);
  EXPECT_EQ(index.version(other), before);
}

TEST_F(NodeIndexTest, NextRecordOfASlotHasAnotherVersion) {
  const NodeSlot slot = index.insert("n1", first);
  index.changed(slot);
  const auto last = index.version(slot);
  index.erase("n1");
  EXPECT_EQ(index.record(slot), nullptr);
  EXPECT_EQ(index.insert("n2", second), slot);
  EXPECT_GT(index.version(slot), last);
  EXPECT_EQ(index.size(), 1u);
}

}  // namespace
}  // namespace mgpu::extender
