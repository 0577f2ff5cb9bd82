#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "extender/wire/wire.h"

namespace mgpu::extender {
namespace {

// Arguments whose names may need escapes.
ExtenderArgs any_args() {
  return ExtenderArgs::of({}, {});
}

TEST(FilterReplyText, NamesForm) {
  FilterReply reply;
  reply.fitting = {"n1", "n2"};
  reply.failed = {{"n3", "too few"}, {"n4", "too few"}};
  reply.failed_and_unresolvable = {{"n5", "no cards"}};
  EXPECT_EQ(write_filter_reply(reply, any_args()),
            R"({"Nodes":null,"NodeNames":["n1","n2"],)"
            R"("FailedNodes":null,"FailedAndUnresolvableNodes":)"
            R"({"n5":"no cards","n3":"too few","n4":"too few"},"Error":""})");
}

// kube-scheduler evicts no more pods for one whose victims are terminating on this node.
TEST(FilterReplyText, TheNominatedNodeIsNotUnresolvable) {
  kube::Pod pod;
  pod.nominated_node = "n2";
  FilterReply reply;
  reply.failed = {{"n1", "too few"}, {"n2", "too few"}};
  EXPECT_THAT(write_filter_reply(reply, ExtenderArgs::of(pod, {})),
              testing::HasSubstr(R"("FailedNodes":{"n2":"too few"},)"
                                 R"("FailedAndUnresolvableNodes":{"n1":"too few"},)"));
}

TEST(FilterReplyText, APodForWhichPodsAreEvictedKeepsItsNomination) {
  FilterReply reply;
  reply.failed = {{"n1", "too few"}};
  EXPECT_THAT(write_filter_reply(reply, any_args(), true),
              testing::HasSubstr(R"("FailedNodes":{"n1":"too few"},)"));
}

TEST(FilterReplyText, AnEmptyListWhereNoNodeFits) {
  EXPECT_EQ(write_filter_reply({}, any_args()),
            R"({"Nodes":null,"NodeNames":[],"FailedNodes":null,)"
            R"("FailedAndUnresolvableNodes":null,"Error":""})");
}

TEST(Replies, EscapeStrings) {
  const std::string odd = "a\"b\\c\n\x01\xC3\xA9\xFF";
  EXPECT_EQ(write_binding_reply(odd), "{\"Error\":\"a\\\"b\\\\c\\n\\u0001\xC3\xA9\xEF\xBF\xBD\"}");
  FilterReply reply;
  reply.fitting = {"\""};
  reply.failed = {{"\\", "\t"}};
  EXPECT_THAT(write_filter_reply(reply, any_args()),
              testing::HasSubstr(R"("FailedAndUnresolvableNodes":{"\\":"\t"})"));
}

// A name as JSON text in the request and in the replies.
struct NameCase {
  const char* written;   // in the request
  const char* answered;  // in the replies
};

class RepliesName : public testing::TestWithParam<NameCase> {};

TEST_P(RepliesName, NodesAsTheRequestDoes) {
  const std::string named = std::string("[\"n1\",") + GetParam().written + "]";
  auto args = ExtenderArgs::parse(R"({"Pod":{},"NodeNames":)" + named + "}");
  ASSERT_TRUE(args) << args.error().message;
  FilterReply reply;
  reply.fitting.assign(args->node_names().begin(), args->node_names().end());
  reply.failed = {{args->node_names()[1], "too few"}, {args->node_names()[0], "too few"}};
  const std::string name = GetParam().answered;
  EXPECT_THAT(write_filter_reply(reply, *args), testing::HasSubstr("[\"n1\"," + name + "]"));
  EXPECT_THAT(write_filter_reply(reply, *args),
              testing::HasSubstr("{" + name + ":\"too few\",\"n1\":\"too few\"}"));
  const std::vector<HostScore> scores = {{args->node_names()[1], 9}};
  EXPECT_EQ(write_prioritize_reply(scores, *args), "[{\"Host\":" + name + ",\"Score\":9}]");
}

INSTANTIATE_TEST_SUITE_P(
    Names, RepliesName,
    testing::Values(NameCase{R"("n2")", R"("n2")"}, NameCase{R"("\u006e2")", R"("n2")"},
                    NameCase{R"("a\"b")", R"("a\"b")"}, NameCase{R"("\\")", R"("\\")"},
                    NameCase{R"("\u0009")", R"("\t")"}, NameCase{R"("")", R"("")"},
                    NameCase{"\"\xC3\xA9\"", "\"\xC3\xA9\""}));

TEST(FilterReplyText, ASentenceIsEscapedForEveryNode) {
  const std::string sentence = "annotation \"x\"";
  FilterReply reply;
  reply.failed = {{"n1", "too few"}, {"n2", sentence}, {"n3", sentence}, {"n4", "too few"}};
  EXPECT_THAT(write_filter_reply(reply, any_args()),
              testing::HasSubstr(R"({"n1":"too few","n2":"annotation \"x\"",)"
                                 R"("n3":"annotation \"x\"","n4":"too few"})"));
}

TEST(FilterReplyText, WritesManyDifferentSentences) {
  std::vector<std::string> sentences;
  for (int i = 0; i < 40; ++i) sentences.push_back("reason \"" + std::to_string(i) + '"');
  FilterReply reply;
  std::string expected;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t one = i * i % sentences.size();
    reply.failed.push_back({"n", sentences[one]});
    expected +=
        (i > 0 ? "," : "") + std::string(R"("n":"reason \")") + std::to_string(one) + R"(\"")";
  }
  EXPECT_THAT(write_filter_reply(reply, any_args()),
              testing::HasSubstr(R"("FailedAndUnresolvableNodes":{)" + expected + "}"));
}

TEST(PrioritizeReplyText, IsAList) {
  EXPECT_EQ(write_prioritize_reply({}, any_args()), "[]");
  const std::vector<HostScore> scores = {{"n1", 10}, {"n2", 0}};
  EXPECT_EQ(write_prioritize_reply(scores, any_args()),
            R"([{"Host":"n1","Score":10},{"Host":"n2","Score":0}])");
}

TEST(BindingReplyText, IsEmptyWhereBound) {
  EXPECT_EQ(write_binding_reply(""), R"({"Error":""})");
}

TEST(PreemptionReplyText, IsTheMetaForm) {
  EXPECT_EQ(write_preemption_reply({}), R"({"NodeNameToMetaVictims":{}})");
  const std::vector<NodeVictims> nodes = {{NodeName("n1"), {PodUid("a"), PodUid("b")}, 1},
                                          {NodeName("n2"), {}, 0}};
  EXPECT_EQ(write_preemption_reply(nodes),
            R"({"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"a"},{"UID":"b"}],)"
            R"("NumPDBViolations":1},"n2":{"Pods":[],"NumPDBViolations":0}}})");
}

// A reply can be read as a request, whatever the names contain.
TEST(PreemptionReplyText, IsReadBack) {
  const std::vector<NodeVictims> nodes = {{NodeName("a\"\\\n"), {PodUid("\x7f\xE2\x82\xAC")}, 7}};
  std::string text = write_preemption_reply(nodes);
  text.insert(1, R"("Pod":{},)");
  auto read = read_preemption_args(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->nodes.size(), 1u);
  EXPECT_EQ(read->nodes[0].node, nodes[0].node);
  EXPECT_EQ(read->nodes[0].victims, nodes[0].victims);
  EXPECT_EQ(read->nodes[0].pdb_violations, 7);
}

}  // namespace
}  // namespace mgpu::extender
