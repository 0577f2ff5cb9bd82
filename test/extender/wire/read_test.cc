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

struct BadArgs {
  std::string body;
  std::string sentence;
};

TEST(BindingArgs, AreRead) {
  auto args = read_binding_args(R"({"PodName":"p","PodNamespace":"d","PodUID":"u1","Node":"n1"})");
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ(args->pod, (PodRef{"d", "p"}));
  EXPECT_EQ(args->uid, PodUid("u1"));
  EXPECT_EQ(args->node, NodeName("n1"));
}

TEST(BindingArgs, MatchWithoutRegardToCaseAndIgnoreWhatIsUnknown) {
  auto args = read_binding_args(
      R"({"podName":"p","PODNAMESPACE":"d","PodUid":"u1","node":"x","Node":"n1","Later":[{}]})");
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ(args->node, NodeName("n1"));
}

TEST(BindingArgs, EachErrorHasItsSentence) {
  const std::vector<BadArgs> cases = {
      {"", "request is not valid JSON: it is empty"},
      {"[]", "request is not a JSON object"},
      {"{}", "request has no PodName"},
      {R"({"PodName":"p","PodNamespace":"d","PodUID":"u1"})", "request has no Node"},
      {R"({"PodName":"p","PodNamespace":"d","PodUID":null,"Node":"n"})", "request has no PodUID"},
      {R"({"PodName":"p","PodNamespace":"","PodUID":"u1","Node":"n"})", "PodNamespace is empty"},
      {R"({"PodName":7,"PodNamespace":"d","PodUID":"u1","Node":"n"})",
       "PodName is \"7\", expected a string"},
      {R"({"PodName":"p"} x)", "request is not valid JSON"},
      {std::string(50'000, '['), "request is not valid JSON"},
      {"\xEF\xBB\xBF{}", "request is not valid JSON"},
      {"{\"PodName\":\"\xff\"}", "request is not valid JSON: it is not UTF-8"},
  };
  for (const auto& [body, sentence] : cases) {
    auto args = read_binding_args(body);
    ASSERT_FALSE(args) << body.substr(0, 100);
    EXPECT_THAT(args.error().message, HasSubstr(sentence)) << body.substr(0, 100);
  }
}

const std::string kPreemptor =
    R"("Pod":{"metadata":{"name":"p","uid":"u0"},"spec":{"priority":9}})";

TEST(PreemptionArgs, VictimsByUid) {
  auto args = read_preemption_args("{" + kPreemptor + R"(,"NodeNameToVictims":null,
    "NodeNameToMetaVictims":{"n2":{"Pods":[{"UID":"b"},{"UID":"c"}],"NumPDBViolations":1},
                             "n1":{"Pods":[{"UID":"a"}],"NumPDBViolations":0}}})");
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ(args->pod.priority, 9);
  ASSERT_EQ(args->nodes.size(), 2u);
  EXPECT_EQ(args->nodes[0].node, NodeName("n1"));
  EXPECT_THAT(args->nodes[0].victims, ElementsAre(PodUid("a")));
  EXPECT_EQ(args->nodes[1].node, NodeName("n2"));
  EXPECT_THAT(args->nodes[1].victims, ElementsAre(PodUid("b"), PodUid("c")));
  EXPECT_EQ(args->nodes[1].pdb_violations, 1);
}

TEST(PreemptionArgs, NamesMatchWithoutRegardToCaseAndNullsAreEmpty) {
  auto args = read_preemption_args("{" + kPreemptor + R"(,"nodenametometavictims":{
    "n1":{"pods":[{"uid":"a"},null],"numPDBViolations":3},"n2":null,"n3":{"Pods":null}}})");
  ASSERT_TRUE(args) << args.error().message;
  ASSERT_EQ(args->nodes.size(), 3u);
  EXPECT_THAT(args->nodes[0].victims, ElementsAre(PodUid("a")));
  EXPECT_EQ(args->nodes[0].pdb_violations, 3);
  EXPECT_THAT(args->nodes[1].victims, IsEmpty());
  EXPECT_THAT(args->nodes[2].victims, IsEmpty());
}

TEST(PreemptionArgs, NoVictimsAtAllIsNoNode) {
  auto args = read_preemption_args("{" + kPreemptor + "}");
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_THAT(args->nodes, IsEmpty());
}

TEST(PreemptionArgs, EachErrorHasItsSentence) {
  const auto meta = [](const std::string& map) {
    return "{" + kPreemptor + R"(,"NodeNameToMetaVictims":)" + map + "}";
  };
  const std::vector<BadArgs> cases = {
      {"", "request is not valid JSON: it is empty"},
      {"{}", "request has no Pod"},
      {R"({"Pod":[]})", "Pod is \"[]\", expected an object"},
      {R"({"Pod":{"spec":7}})", "Pod: "},
      {meta("[]"), "NodeNameToMetaVictims is \"[]\", expected a map of victims by node"},
      {meta(R"({"n1":7})"), "victims of node \"n1\" is \"7\", expected an object"},
      {meta(R"({"n1":{"Pods":{}}})"),
       "victims of node \"n1\": Pods is \"{}\", expected a list of pods"},
      {meta(R"({"n1":{"Pods":[7]}})"), "victims of node \"n1\": Pods[0] is \"7\", expected a pod"},
      {meta(R"({"n1":{"Pods":[{}]}})"), "victims of node \"n1\": Pods[0] has no uid"},
      {meta(R"({"n1":{"Pods":[{"UID":""}]}})"), "victims of node \"n1\": Pods[0] has no uid"},
      {meta(R"({"n1":{"NumPDBViolations":1.5}})"),
       "victims of node \"n1\": NumPDBViolations is \"1.5\", expected a whole number"},
      {meta(R"({"n1":{"NumPDBViolations":99999999999999999999}})"), "request is not valid JSON"},
      {meta("{}") + "}", "request is not valid JSON"},
  };
  for (const auto& [body, sentence] : cases) {
    auto args = read_preemption_args(body);
    ASSERT_FALSE(args) << body.substr(0, 200);
    EXPECT_THAT(args.error().message, HasSubstr(sentence)) << body.substr(0, 200);
  }
}

TEST(PreemptionArgs, NoDamagedMessageCrashes) {
  const std::string good =
      "{" + kPreemptor + R"(,"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"a"}]}}})";
  ASSERT_TRUE(read_preemption_args(good));
  for (std::size_t end = 0; end < good.size(); ++end) {
    EXPECT_FALSE(read_preemption_args(good.substr(0, end)));
    for (const char damage : {'"', '{', '}', '[', ']', ',', ':', '\\', '0', '\x80', '\0'}) {
      std::string bad = good;
      bad[end] = damage;
      static_cast<void>(read_preemption_args(bad));
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
