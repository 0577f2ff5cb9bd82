#include "common/yaml/read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "common/yaml/json.h"
#include "common/yaml/limits.h"
#include "common/yaml/write.h"

namespace mgpu::yaml {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string json_text_of(const std::string& text) {
  const auto document = read_document(text);
  return document ? json_of(*document) : document.error().message;
}

// What kubectl 1.33.1 prints for the same texts.
TEST(ReadYaml, ReadsScalarsAsKubectl) {
  EXPECT_EQ(json_text_of("[yes, y, On, 'true', 017, 0x1F, 1e3, .5, 1.50, +5, 08, 1:30, 2020-01-01, "
                         "\"<<\", ~, Null, !!str 5, v1, -, '']"),
            R"([true,true,true,"true",15,31,1000,0.5,1.5,5,8,"1:30","2020-01-01","<<",null,null,)"
            R"("5","v1","-",""])");
}

TEST(ReadYaml, MergesMapsAsKubectl) {
  const std::string base = "base: &b {a: one, b: two}\nx: ";
  for (const auto& [text, json] : std::vector<std::pair<std::string, std::string>>{
           {"{<<: *b}", R"({"a":"one","b":"two"})"},
           {"{<<: *b, a: mine}", R"({"a":"mine","b":"two"})"},
           {"{a: mine, <<: *b}", R"({"a":"one","b":"two"})"},
           {"{<<: [{a: first}, *b]}", R"({"a":"first","b":"two"})"},
           {"{<<: {<<: *b, c: 3}}", R"({"a":"one","b":"two","c":3})"},
           {"{\"<<\": 1}", R"({"<<":1})"}}) {
    EXPECT_EQ(json_text_of(base + text), R"({"base":{"a":"one","b":"two"},"x":)" + json + "}")
        << text;
  }
}

TEST(ReadYaml, CountsDocumentsWithoutContent) {
  const auto documents = read_documents("---\n# nothing\n---\na: 1\n---\nb: 2\n");
  ASSERT_TRUE(documents) << documents.error().message;
  ASSERT_EQ(documents->size(), 3U);
  EXPECT_TRUE((*documents)[0].is_null());
  EXPECT_EQ((*documents)[2].line, 6);
  EXPECT_EQ(json_text_of("---\n---\na: 1\n"), R"({"a":1})");
  EXPECT_EQ(json_text_of("# nothing"), "null");
  EXPECT_EQ(json_text_of("a: 1\n---\na: 1\n"), "has 2 documents, expected one");
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

// Each level has ten aliases of the one before.
std::string many_aliases(int levels) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < levels; ++i) {
    text += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) text += fmt::format("{}*a{}", j == 0 ? "" : ", ", i - 1);
    text += "]\n";
  }
  return text;
}

// The text is short, but each alias makes what it stands for one level deeper.
std::string deep_aliases(int levels) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < levels; ++i) text += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  return text;
}

TEST(ReadYaml, NamesLineAndMistake) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"a: [", "not YAML: line 1: "},
           {", a", "not YAML: line 1: a document cannot begin here"},
           {"b:\n  a: 1\n  c: 2\n  a: 1\n", "line 4: has the key \"a\" twice in a map"},
           {"a: &x {b: 1}\nc: {b: 1, <<: *x, b: 2}\n", "line 2: has the key \"b\" twice"},
           {"a: 1\nc: {<<: 1}\n", "line 2: has a merge key (<<), expected a map or a list of maps"},
           {"c: {<<: [{}, x]}\n", "line 1: has a merge key (<<), expected a map"},
           {"a: &x\n  - *x\n", "line 2: has an alias within what it stands for"},
           {"a: !!int 1\n", "line 1: has the tag \"tag:yaml.org,2002:int\", expected no tags"},
           {"a: !b [1]\n", "line 1: has the tag \"!b\", expected no tags"},
           {"? [a]\n: b\n", "line 1: has a key that is not a text"},
           {"~: b\n", "line 1: has a key that is not a text"},
           {nested(kDepthMax + 1), "line 1: is nested deeper than 64 levels"},
           {nested(100'000), "line 1: is nested deeper than 64 levels"},
           {deep_aliases(kDepthMax + 1), "is nested deeper than 64 levels"},
           {many_aliases(9), "has aliases that repeat too much"}}) {
    const auto documents = read_documents(text);
    ASSERT_FALSE(documents) << text.substr(0, 40);
    EXPECT_THAT(documents.error().message, HasSubstr(why));
  }
  const std::string long_text = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  EXPECT_TRUE(read_documents(long_text + "*a]"));
  std::string many = long_text;
  for (int i = 0; i < 20; ++i) many += "*a, ";
  EXPECT_FALSE(read_documents(many + "]"));
  EXPECT_TRUE(read_documents(nested(kDepthMax)));
  EXPECT_TRUE(read_documents(many_aliases(4)));
}

TEST(WriteYaml, KeepsQuotesAndBracketsAndLosesAliases) {
  const std::string text = "a: &x {b: \"1\"}\nc: *x\nd:\n  - 1\n  - '2'\n---\n\"e\": [~]\n";
  const auto documents = read_documents(text);
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(*write_documents(*documents),
            "a: {b: \"1\"}\nc: {b: \"1\"}\nd:\n  - 1\n  - \"2\"\n---\n\"e\": [~]\n");
}

}  // namespace
}  // namespace mgpu::yaml
