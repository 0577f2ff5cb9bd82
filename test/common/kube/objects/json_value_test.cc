#include "common/kube/objects/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Everything {
  std::string text;
  std::int32_t number = 0;
  double real = 0;
  bool truth = false;
  StringMap texts;
  StringMap quantities;
  std::vector<std::string> list;
  std::vector<std::string> names;
  std::string object;
};

Result<Everything> read_everything(std::string_view json) {
  Everything all;
  const auto read = read_json(json, [&](JsonValue& root) {
    root.read({{"text", all.text},
               {"number", all.number},
               {"real", [&](JsonValue& value) { all.real = value.number(); }},
               {"truth", all.truth},
               {"texts", all.texts},
               {"quantities", [&](JsonValue& value) { all.quantities = value.quantities(); }},
               {"list", all.list},
               {"objects",
                [&](JsonValue& value) {
                  all.names = value.list([](JsonValue& element) {
                    std::string name;
                    element.read({{"name", name}});
                    return name;
                  });
                }},
               {"object", [&](JsonValue& value) { all.object = value.object_text(); }}});
  });
  if (!read) return read.error();
  return all;
}

TEST(JsonValue, ReadsEachTypeAndSkipsOtherMembers) {
  const auto all = read_everything(
      R"( {"skipped":{"text":[1.5,"]"]},"text":"x\u00e9\/","number":-7,"real":-1.5e2,
      "truth" : true , "texts":{"a":"b","c":""}, "quantities":{"cpu":2,"memory":"1Gi"},
      "list":["a","b"], "objects":[{"name":"o","x":{}},{}], "object": {"a" :[{}] } } )");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->text, "x\xC3\xA9/");
  EXPECT_EQ(all->number, -7);
  EXPECT_EQ(all->real, -150);
  EXPECT_TRUE(all->truth);
  EXPECT_THAT(all->texts, ElementsAre(Pair("a", "b"), Pair("c", "")));
  EXPECT_THAT(all->quantities, ElementsAre(Pair("cpu", "2"), Pair("memory", "1Gi")));
  EXPECT_THAT(all->list, ElementsAre("a", "b"));
  EXPECT_THAT(all->names, ElementsAre("o", ""));
  EXPECT_EQ(all->object, R"({"a" :[{}] })");
}

TEST(JsonValue, ReadsNullAsEmpty) {
  const auto all = read_everything(
      R"({"text":null,"number":null,"truth":null,"texts":null,"list":null,"objects":null})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->text, "");
  EXPECT_THAT(all->texts, IsEmpty());
}

TEST(JsonValue, UsesTheLastOfEqualMembers) {
  const auto all = read_everything(
      R"({"text":"a","list":["a"],"texts":{"a":"1","a":"2"},"te\u0078t":"b","list":["b"]})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->text, "b");
  EXPECT_THAT(all->list, ElementsAre("b"));
  EXPECT_THAT(all->texts, ElementsAre(Pair("a", "2")));
  EXPECT_EQ(read_everything(R"({"text":"a","text":null})")->text, "");
}

TEST(JsonValue, ReportsTheFirstProblemWithItsPath) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"text":7,"number":"a"})", "text must be a string, is number 7"},
      {R"({"number":"a\n"})", R"(number must be a 32-bit integer, is string "a\n")"},
      {R"({"number":2147483648})", "number must be a 32-bit integer, is number 2147483648"},
      {R"({"number":1e2})", "number must be a 32-bit integer, is number 1e2"},
      {R"({"real":"1"})", R"(real must be a number, is string "1")"},
      {R"({"real":1e999})", "real must be a number, is number 1e999"},
      {R"({"truth":"true"})", R"(truth must be true or false, is string "true")"},
      {R"({"texts":{"a":"b","c":[]}})", "texts.c must be a string, is array"},
      {R"({"texts":{"a":1}})", "texts.a must be a string, is number 1"},
      {R"({"quantities":{"a":0.5}})", "quantities.a must be a string, is number 0.5"},
      {R"({"quantities":{"a":null}})", "quantities.a must be a string, is null"},
      {R"({"list":["a",true]})", "list[1] must be a string, is boolean true"},
      {R"({"list":[null]})", "list[0] must be a string, is null"},
      {R"({"list":{}})", "list must be an array, is object"},
      {R"({"objects":[{},{"name":{}}]})", "objects[1].name must be a string, is object"},
      {R"({"objects":[7]})", "objects[0] must be an object, is number 7"},
      {R"({"object":null})", "object must be an object, is null"},
      {R"("text")", "the JSON text must be an object"},
      {R"([{}])", "the JSON text must be an object"},
      {R"(null)", "the JSON text must be an object"},
      {R"({"text":"\ud800"})", "not JSON: Problem while parsing a string, at text"},
      {R"({"texts":{"a":"\x"}})", "at texts.a"},
      {R"({"truth":trux})", "not JSON"},
      {R"({"text":nul})", "not JSON"},
      {R"(<!doctype html>)", R"(it begins with "<!doctype html>")"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto all = read_everything(text);
    ASSERT_FALSE(all) << text;
    EXPECT_THAT(all.error().message, HasSubstr(sentence)) << text;
  }
}

TEST(JsonValue, CutsNamesAndValuesInItsErrors) {
  const std::string much(1'000'000, 'n');
  for (const std::string& text :
       {R"({"texts":{")" + much + R"(":1}})", R"({"number":")" + much + R"("})",
        "{\"number\":" + much + "}", R"({"number":1)" + std::string(1'000'000, '0') + "}", much}) {
    const auto all = read_everything(text);
    ASSERT_FALSE(all);
    EXPECT_LT(all.error().message.size(), 400u);
  }
}

TEST(JsonValue, EscapesNumbersInItsErrors) {
  const auto read = read_everything("{\"number\":7\x7f\x01}");
  EXPECT_THAT(read.error().message, HasSubstr(R"(is number 7\u007f\u0001)"));
}

TEST(JsonValue, EscapesNamesInItsErrors) {
  const auto read = read_everything(R"({"quantities":{"a\nb\u0007\"":true}})");
  EXPECT_THAT(read.error().message, HasSubstr(R"(quantities.a\nb\u0007\" must be a string)"));
}

TEST(JsonValue, ReturnsTheProblemOfAValueThatIsTried) {
  std::vector<std::string> problems;
  std::string after;
  const auto read =
      read_json(R"({"list":[{"name":7},{"name":"a"},8],"after":"b"})", [&](auto& root) {
        root.read({{"list",
                    [&](JsonValue& list) {
                      list.elements([&](JsonValue& element) {
                        problems.push_back(element.try_read([](JsonValue& value) {
                          std::string name;
                          value.read({{"name", name}});
                        }));
                      });
                    }},
                   {"after", after}});
      });
  EXPECT_TRUE(read) << read.error().message;
  EXPECT_THAT(problems, ElementsAre("list[0].name must be a string, is number 7", "",
                                    "list[2] must be an object, is number 8"));
  EXPECT_EQ(after, "b");
}

TEST(JsonValue, ReadsAnObjectAfterItsTextWasTaken) {
  for (const std::string object : {R"({"name":"a"})", "{}"}) {
    std::string text;
    std::string name = "before";
    std::string after;
    const auto read = read_json(R"({"o":)" + object + R"(,"after":"b"})", [&](JsonValue& root) {
      root.read({{"o",
                  [&](JsonValue& value) {
                    text = value.object_text();
                    value.read({{"name", name}});
                  }},
                 {"after", after}});
    });
    EXPECT_TRUE(read) << read.error().message;
    EXPECT_EQ(text, object);
    EXPECT_EQ(name, object == "{}" ? "before" : "a");
    EXPECT_EQ(after, "b");
  }
}

TEST(JsonValue, ReadsNothingOfAnObjectWithoutAnEnd) {
  for (const std::string_view json :
       {R"({"object":{""})", R"({"object":{"inner":{"name":"a","more":{"x":1}})"}) {
    std::string text = "unread";
    bool visited = false;
    const auto read = read_json(json, [&](JsonValue& root) {
      root.read({{"object", [&](JsonValue& object) {
                    text = object.object_text();
                    object.members([&](std::string_view, JsonValue&) { visited = true; });
                  }}});
    });
    ASSERT_FALSE(read) << json;
    EXPECT_THAT(read.error().message, HasSubstr("not JSON")) << json;
    EXPECT_EQ(text, "") << json;
    EXPECT_FALSE(visited) << json;
  }
}

TEST(JsonValue, ReadsATextWhileReadingAnother) {
  std::string inner;
  std::string after;
  const auto read = read_json(R"({"a":"{\"b\":\"c\"}","z":"y"})", [&](JsonValue& root) {
    root.read({{"a",
                [&](JsonValue& value) {
                  const std::string text = value.text();
                  EXPECT_TRUE(read_json(text, [&](JsonValue& own) { own.read({{"b", inner}}); }));
                }},
               {"z", after}});
  });
  EXPECT_TRUE(read) << read.error().message;
  EXPECT_EQ(inner, "c");
  EXPECT_EQ(after, "y");
}

// More than the size up to which a thread keeps its buffers.
TEST(JsonValue, ReadsTextsOfAnySize) {
  for (const std::size_t size : {kJsonParserKeptBytes * 2, std::size_t{10}}) {
    const auto all = read_everything(R"({"text":")" + std::string(size, 'x') + R"("})");
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->text.size(), size);
  }
}

// Strings of 1,450,000 '<', which Go writes as \u003c.
TEST(JsonValue, ReadsLongEscapes) {
  std::string text = R"({"text":")";
  for (int i = 0; i < 1'450'000; ++i) text += "\\u003c";
  const auto all = read_everything(text + R"("})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->text, std::string(1'450'000, '<'));
}

TEST(JsonValue, ReplacesBytesThatAreNotUtf8OnRequest) {
  const std::string text = "{\"text\":\"a\xff\xc3\xa9\xe2\x82\"}";
  EXPECT_THAT(read_everything(text).error().message, HasSubstr("not JSON"));
  std::string read;
  EXPECT_TRUE(read_json(
      text,
      [&](JsonValue& root) {
        root.read({{"text", read}});
      },
      true));
  EXPECT_EQ(read, "a?\xc3\xa9??");
}

// Skipped members are not checked, but the text is never read beyond its end.
TEST(JsonValue, ReturnsAResultForAnyBytes) {
  const std::string whole =
      R"({"skipped":[{"a":"]"}],"text":"x\u00e9","number":-7,"truth":true,"texts":{"a":"b"},)"
      R"("quantities":{"cpu":2},"list":["a","b"],"objects":[{"name":"o","x":{}},{}],)"
      R"("object":{"a":[{}]}})";
  for (std::size_t i = 0; i < whole.size(); ++i) {
    (void)read_everything(whole.substr(0, i));
    (void)read_everything(whole.substr(i));
    for (const char c : {'"', '{', '}', '[', ']', '\\', ',', ':', '\0', '\xff', '9', ' '}) {
      std::string changed = whole;
      changed[i] = c;
      (void)read_everything(changed);
    }
  }
}

}  // namespace
}  // namespace mgpu::kube
