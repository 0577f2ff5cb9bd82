#include "extender/ledger/name_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mgpu::extender {
namespace {

// Of every length up to 40: equal but for one character, at each place.
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

TEST(NameIndex, TellsSimilarNamesApart) {
  const auto names = similar_names();
  NameIndex index;
  for (NodeSlot slot = 0; slot < names.size(); ++slot) index.insert(names[slot], slot);
  for (NodeSlot slot = 0; slot < names.size(); ++slot)
    EXPECT_EQ(index.find(names[slot]), slot) << names[slot];
}

TEST(NameIndex, DoesNotKnowWhatIsPartOfANameOrMore) {
  NameIndex index;
  index.insert("gpu-node-1234", 7);
  for (const char* name : {"", "gpu-node-123", "gpu-node-12345", "pu-node-1234", "gpu-node-1235"})
    EXPECT_EQ(index.find(name), std::nullopt) << name;
}

TEST(NameIndex, FindsANameThatStandsWithinAnotherText) {
  NameIndex index;
  index.insert("gpu-node-1", 7);
  const std::string text = R"(["gpu-node-1","gpu-node-2"])";
  EXPECT_EQ(index.find(std::string_view(text).substr(2, 10)), 7u);
  EXPECT_EQ(index.find(std::string_view(text).substr(15, 10)), std::nullopt);
}

TEST(NameIndex, ForgetsWhatIsErased) {
  NameIndex index;
  index.insert("n1", 1);
  index.insert("n2", 2);
  index.erase("n1");
  EXPECT_EQ(index.find("n1"), std::nullopt);
  EXPECT_EQ(index.find("n2"), 2u);
}

}  // namespace
}  // namespace mgpu::extender
