#include "common/kube/json_plain.h"

#include <gtest/gtest.h>

#include <string>

namespace mgpu::kube {
namespace {

bool all(std::size_t, std::string_view) {
  return true;
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

// "name:kind text(children)" of a tree.
std::string text_of(const JsonNode& node) {
  std::string out = node.name + ":" + std::to_string(static_cast<int>(node.kind)) + " " + node.text;
  if (node.truth) out += "true";
  if (node.integer) out += "=" + std::to_string(*node.integer);
  for (const JsonNode& child : node.children) out += "(" + text_of(child) + ")";
  return out;
}

TEST(PlainJson, IsTheTreeWithTheMembersThatAreWanted) {
  const auto root = parse_plain_json(
      R"({"a":[1,"x\u00e9",null],"skipped":{"a":1.5},"b":{"skipped":1,"c":true,"c":false,"d":-7}})",
      [](std::size_t depth, std::string_view name) { return depth < 3 && name != "skipped"; });
  ASSERT_TRUE(root);
  EXPECT_EQ(text_of(*root),
            ":5 (a:4 (:2 1=1)(:3 x\xC3\xA9)(:0 ))(b:5 (c:1 true)(c:1 )(d:2 -7=-7))");
}

TEST(PlainJson, LeavesWhatIsNotJsonToWhoCanTellOfIt) {
  for (const std::string& text : {std::string(), std::string("{"), std::string(R"({"a":"\x"})"),
                                  std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":\"\n\"}"),
                                  std::string("{} x"), std::string(R"({"a":1e999})"),
                                  std::string(R"({"a":01})"), std::string(R"({"a":"\ud800"})")}) {
    EXPECT_FALSE(parse_plain_json(text, all)) << text;
    EXPECT_FALSE(parse_json(text, all)) << text;
  }
}

TEST(PlainJson, LeavesWhatIsRareToTheOtherParser) {
  for (const std::string& text :
       {std::string("[1.5]"), std::string("[18446744073709551615]"), nested(60)}) {
    EXPECT_FALSE(parse_plain_json(text, all)) << text;
    EXPECT_TRUE(parse_json(text, all)) << text;
  }
  EXPECT_TRUE(parse_plain_json(R"({"skipped":1.5})", [](auto...) { return false; }));
  EXPECT_TRUE(parse_plain_json(nested(20), all));
}

}  // namespace
}  // namespace mgpu::kube
