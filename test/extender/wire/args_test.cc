#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "extender/wire/wire.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kPod =
    R"({"metadata":{"name":"p","namespace":"d","uid":"u1"},"spec":{"containers":[{"name":"c"}]}})";

std::string with(const std::string& rest) {
  return R"({"Pod":)" + kPod + rest + "}";
}

std::string error_of(std::string body) {
  auto args = ExtenderArgs::parse(std::move(body));
  return args ? "" : args.error().message;
}

std::vector<std::string> names_of(const std::string& body) {
  auto args = ExtenderArgs::parse(body);
  if (!args) return {"error: " + args.error().message};
  return {args->node_names().begin(), args->node_names().end()};
}

TEST(ExtenderArgs, ReadPodAndNames) {
  auto args = ExtenderArgs::parse(with(R"(,"Nodes":null,"NodeNames":["n1","n2"])"));
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ(args->pod().metadata.name, "p");
  EXPECT_EQ(args->pod().metadata.uid, "u1");
  EXPECT_THAT(args->node_names(), ElementsAre("n1", "n2"));
}

TEST(ExtenderArgs, NamesStayValidWhenTheArgsMove) {
  auto parsed = ExtenderArgs::parse(with(R"(,"NodeNames":["n1","n\u0032"])"));
  ASSERT_TRUE(parsed);
  ExtenderArgs moved = std::move(*parsed);
  EXPECT_THAT(moved.node_names(), ElementsAre("n1", "n2"));
}

TEST(ExtenderArgs, EscapesMayBeAnywhere) {
  struct Case {
    const char* names;
    std::vector<std::string> read;
  };
  const std::vector<Case> cases = {
      {R"(["n1","n2"])", {"n1", "n2"}},
      {R"([ "n1" , "n2" ])", {"n1", "n2"}},
      {R"(["n\u0031","n2"])", {"n1", "n2"}},
      {R"(["n1","n\u0032"])", {"n1", "n2"}},
      {R"(["n1", "n\"2" ,"n3"])", {"n1", "n\"2", "n3"}},
      {R"(["","\\"])", {"", "\\"}},
  };
  const std::string escaped = R"(,"Other":"\n")";
  for (const Case& one : cases) {
    const std::string names = std::string(R"(,"NodeNames":)") + one.names;
    EXPECT_EQ(names_of(with(names)), one.read) << one.names;
    EXPECT_EQ(names_of(with(names + escaped)), one.read) << one.names << ", an escape behind";
    EXPECT_EQ(names_of(with(escaped + names)), one.read) << one.names << ", an escape before";
  }
}

TEST(ExtenderArgs, MemberNamesMatchWithoutRegardToCase) {
  const std::vector<std::string> spellings = {"NodeNames", "nodenames", "nodeNames", "NODENAMES"};
  for (const auto& spelling : spellings) {
    const std::string body = R"({"pOD":)" + kPod + R"(,"NODES":null,")" + spelling + R"(":["n1"]})";
    EXPECT_THAT(names_of(body), ElementsAre("n1")) << spelling;
  }
}

TEST(ExtenderArgs, MembersOfThePodMatchExactly) {
  auto args = ExtenderArgs::parse(R"({"Pod":{"METADATA":{"name":"x"},"metadata":{"name":"p"}}})");
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ(args->pod().metadata.name, "p");
}

TEST(ExtenderArgs, UnknownMembersAreIgnored) {
  EXPECT_THAT(names_of(with(R"(,"Later":{"a":[1,{"b":null}]},"NodeNames":["n1"],"x":1.5e3)")),
              ElementsAre("n1"));
}

TEST(ExtenderArgs, TheLastOfDuplicateMembersCounts) {
  EXPECT_THAT(names_of(with(R"(,"NodeNames":["a","b"],"nodenames":["c"])")), ElementsAre("c"));
  EXPECT_THAT(names_of(with(R"(,"NodeNames":["a"],"NodeNames":null)")), IsEmpty());
  EXPECT_THAT(error_of(with(R"(,"Pod":null)")), HasSubstr("no Pod"));
}

TEST(ExtenderArgs, NoCandidatesWhereNamesAndNodesAreNullOrAbsent) {
  for (const char* rest : {"", R"(,"Nodes":null,"NodeNames":null)", R"(,"NodeNames":[])"}) {
    EXPECT_THAT(names_of(with(rest)), IsEmpty()) << rest;
  }
}

TEST(ExtenderArgs, EscapesInNamesAreRead) {
  EXPECT_THAT(names_of(with(R"(,"NodeNames":["\u0041b","a\"b","a\\","\ud83d\ude00"])")),
              ElementsAre("Ab", "a\"b", "a\\", "\xF0\x9F\x98\x80"));
}

TEST(ExtenderArgs, WhiteSpaceAnywhereIsIgnored) {
  EXPECT_THAT(names_of(" \n{ \"Pod\" : " + kPod + " , \"NodeNames\" : [ \"a\" ,\t\"b\"\n] } \r\n"),
              ElementsAre("a", "b"));
}

TEST(ExtenderArgs, TwentyThousandNames) {
  std::string list;
  for (int i = 0; i < 20'000; ++i) {
    list += (i == 0 ? "\"" : ",\"") + ("node-" + std::to_string(i)) + "\"";
  }
  auto args = ExtenderArgs::parse(with(R"(,"NodeNames":[)" + list + "]"));
  ASSERT_TRUE(args) << args.error().message;
  ASSERT_EQ(args->node_names().size(), 20'000u);
  EXPECT_EQ(args->node_names().front(), "node-0");
  EXPECT_EQ(args->node_names().back(), "node-19999");
}

TEST(ExtenderArgs, MessagesOfEverySizeNextToEachOther) {
  // The parser's buffers are reused: no message may affect the next.
  for (std::size_t size : {3'000'000u, 1u, 70'000u, 2u}) {
    const std::string name(size, 'x');
    EXPECT_THAT(names_of(with(R"(,"NodeNames":[")" + name + R"("])")), ElementsAre(name));
  }
}

struct BadCase {
  std::string body;
  std::string sentence;
};

TEST(ExtenderArgs, EachErrorHasItsSentence) {
  const std::string deep(100'000, '[');
  const std::vector<BadCase> cases = {
      {"", "request is not valid JSON: it is empty"},
      {"   ", "request is not valid JSON: it is empty"},
      {"null", "request is not a JSON object"},
      {"[]", "request is not a JSON object"},
      {"17", "request is not a JSON object"},
      {"\"Pod\"", "request is not a JSON object"},
      {"{", "request is not valid JSON"},
      {"{}", "request has no Pod"},
      {R"({"Pod":null})", "request has no Pod"},
      {R"({"Pod":[1]})", "Pod is \"[\", expected an object"},
      {R"({"Pod":"x"})", "Pod is \"\\\"x\\\"\", expected an object"},
      {R"({"Pod":{"metadata":[]}})", "Pod: "},
      {with(R"(,"NodeNames":"n1")"), "NodeNames is \"\\\"n1\\\"\", expected a list of names"},
      {with(R"(,"NodeNames":{})"), "NodeNames is \"{\", expected a list of names"},
      {with(R"(,"NodeNames":["a",17])"), "NodeNames[1] is \"17\", expected a string"},
      {with(R"(,"NodeNames":["a",null])"), "NodeNames[1] is \"null\", expected a string"},
      {with(R"(,"NodeNames":["a",["b"]])"), "NodeNames[1] is \"[\", expected a string"},
      {with(R"(,"NodeNames":[1e99999])"), "NodeNames[0] is \"1e99999\", expected a string"},
      {with(R"(,"NodeNames":["a" "b"])"), "request is not valid JSON"},
      {with(R"(,"NodeNames":["a",])"), "NodeNames[1] is \"]\", expected a string"},
      {with(R"(,"NodeNames":["\q"])"), "request is not valid JSON: it has a broken string"},
      {with(R"(,"NodeNames":["\ud800"])"), "request is not valid JSON: it has a broken string"},
      {with(",\"NodeNames\":[\"a\nb\"]"), "request is not valid JSON: it has a broken string"},
      {with(",\"NodeNames\":[\"\xff\"]"), "request is not valid JSON: it is not UTF-8"},
      {with(R"(,"NodeNames":["a)"), "request is not valid JSON"},
      {with(R"(,"NodeNames":["a"],"x":tru)"), "request is not valid JSON"},
      {with(R"(,"NodeNames":["a"],"x":1e99999)"), "request is not valid JSON: it has a number"},
      {with(R"(,"NodeNames":["a"],"x":)" + deep), "request is not valid JSON"},
      {with(R"(,"Nodes":{"items":[]},"NodeNames":["a"])"),
       "Nodes are whole nodes, expected NodeNames alone: set nodeCacheCapable: true"},
      {"\xEF\xBB\xBF" + with(""), "request is not"},
      {with("") + "x", "request is not valid JSON"},
      {with("") + "{}", "request is not valid JSON"},
      {with("") + "}", "request is not valid JSON"},
      {R"({"Pod":)" + kPod, "request is not valid JSON"},
  };
  for (const auto& [body, sentence] : cases) {
    EXPECT_THAT(error_of(body), HasSubstr(sentence)) << body.substr(0, 300);
  }
}

TEST(ExtenderArgs, DeepNestingAnywhereIsAnErrorNotACrash) {
  const std::string arrays = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_NE(error_of(with(R"(,"x":)" + arrays)), "");
  EXPECT_NE(error_of(with(R"(,"NodeNames":)" + arrays)), "");
  EXPECT_NE(error_of(R"({"Pod":{"metadata":)" + arrays + "}}"), "");
  // Members that are not read may have any depth: users write the pod.
  EXPECT_EQ(error_of(R"({"Pod":{"x":)" + arrays + "}}"), "");
}

TEST(ExtenderArgs, ALongValueIsCutInItsSentence) {
  const std::string sentence =
      error_of(with(R"(,"NodeNames":")" + std::string(100'000, 'x') + "\""));
  EXPECT_LT(sentence.size(), 300u);
}

// Truncated messages and messages with one changed byte are read or refused.
TEST(ExtenderArgs, NoDamagedMessageCrashes) {
  const std::string good = with(R"(,"Nodes":null,"NodeNames":["n1","n\u0032"],"x":[1,{}])");
  ASSERT_EQ(error_of(good), "");
  for (std::size_t end = 0; end < good.size(); ++end) {
    EXPECT_NE(error_of(good.substr(0, end)), "") << end;
    for (const char damage : {'"', '{', '}', '[', ']', ',', ':', '\\', '0', '\x80', '\0'}) {
      std::string bad = good;
      bad[end] = damage;
      error_of(bad);
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
