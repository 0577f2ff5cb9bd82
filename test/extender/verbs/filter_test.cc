#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/placement/reason.h"
#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender {
namespace {

using mgpu::test::at_ms;
using mgpu::test::bound_claim;
using mgpu::test::expected_text;
using test::add_node;
using test::args_of;
using test::PodText;
using test::settings_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct FilterTest : testing::Test {
  FilterReply context(const PodText& pod, const std::vector<std::string>& names) {
    args = std::make_unique<ExtenderArgs>(args_of(pod, names));
    return filter(*args, ledger, settings, at_ms(0));
  }

  Ledger ledger;
  Settings settings = settings_of();
  std::unique_ptr<ExtenderArgs> args;  // replies point into it
};

std::vector<std::string> texts(const std::vector<Refusal>& refusals) {
  std::vector<std::string> lines;
  for (const auto& refusal : refusals) {
    lines.push_back(std::string(refusal.node) + ": " + std::string(refusal.sentence));
  }
  return lines;
}

std::string line(const char* node, Reason reason) {
  return std::string(node) + ": " + std::string(sentence(reason));
}

TEST_F(FilterTest, EveryNodeIsEitherFittingOrRefusedWithItsSentence) {
  add_node(ledger, "free: 0[100/8000]");
  add_node(ledger, "busy: 0[100/8000]");
  add_node(ledger, "small: 0[100/512]");
  add_node(ledger, "none:");
  ledger.apply_pod(bound_claim("a", "busy", "80/1000", "0"));
  const auto reply = context({}, {"busy", "free", "ghost", "none", "small"});
  EXPECT_THAT(reply.fitting, ElementsAre("free"));
  EXPECT_THAT(texts(reply.failed), ElementsAre(line("busy", Reason::kCore)));
  EXPECT_THAT(texts(reply.failed_and_unresolvable),
              ElementsAre(line("ghost", Reason::kNodeUnknown), line("none", Reason::kNoCards),
                          line("small", Reason::kCardsTooSmall)));
  EXPECT_EQ(reply.error, "");
}

TEST_F(FilterTest, OrderIsTheRequests) {
  for (const char* node : {"c: 0[100/8000]", "a: 0[100/8000]", "b: 0[100/8000]"}) {
    add_node(ledger, node);
  }
  EXPECT_THAT(context({}, {"c", "a", "b"}).fitting, ElementsAre("c", "a", "b"));
}

TEST_F(FilterTest, APodWithoutCardsPassesEverywhereEvenUnknownNodes) {
  const auto reply = context({.asks = {""}}, {"ghost", "other"});
  EXPECT_THAT(reply.fitting, ElementsAre("ghost", "other"));
  EXPECT_THAT(reply.failed_and_unresolvable, IsEmpty());
}

TEST_F(FilterTest, APodThatCannotBeReadIsRefusedEverywhereWithOneSentence) {
  add_node(ledger, "n1: 0[100/8000]");
  const std::vector<PodText> pods = {
      {.asks = {"30"}},
      {.asks = {"150/1024"}},
      {.asks = {"30/1"}},
      {.asks = {"30/1024"}, .container = std::string(43, 'x')},
      {.annotations = R"("vke.volcengine.com/container-multiple-gpu":"x")"},
  };
  for (const auto& pod : pods) {
    const auto reply = context(pod, {"n1", "ghost"});
    EXPECT_THAT(reply.fitting, IsEmpty());
    EXPECT_THAT(reply.failed, IsEmpty());
    ASSERT_EQ(reply.failed_and_unresolvable.size(), 2u);
    EXPECT_FALSE(reply.failed_and_unresolvable[0].sentence.empty());
    EXPECT_EQ(reply.failed_and_unresolvable[0].sentence, reply.failed_and_unresolvable[1].sentence);
    EXPECT_EQ(reply.error, "");
  }
}

TEST_F(FilterTest, AnUnknownPolicyIsRefusedEverywhereByName) {
  add_node(ledger, "n1: 0[100/8000]");
  const auto reply = context({.annotations = R"("vke.volcengine.com/mgpu-policy":"best")"}, {"n1"});
  ASSERT_EQ(reply.failed_and_unresolvable.size(), 1u);
  EXPECT_THAT(reply.failed_and_unresolvable[0].sentence,
              testing::AllOf(HasSubstr("mgpu-policy"), HasSubstr("best"), HasSubstr("binpack")));
}

TEST_F(FilterTest, TheSentenceOfARefusedPodOutlivesCopiesOfTheReply) {
  FilterReply copy;
  {
    const auto reply = context({.asks = {"30"}}, {"n1"});
    copy = reply;
  }
  EXPECT_THAT(write_filter_reply(copy, args.get()), HasSubstr("mgpu-memory"));
}

TEST_F(FilterTest, FullNodesAreAnsweredByIndex) {
  add_node(ledger, "n1: 0[100/512]");
  add_node(ledger, "n2: 0[100/8000]");
  const auto full = ExtenderArgs::parse(
      R"({"Pod":)" + test::pod_json({}) +
      R"(,"Nodes":{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}})");
  ASSERT_TRUE(full);
  const auto reply = filter(*full, ledger, settings, at_ms(0));
  EXPECT_THAT(reply.fitting_full_nodes, ElementsAre(1));
  EXPECT_THAT(write_filter_reply(reply, &*full),
              HasSubstr(R"("items":[{"metadata":{"name":"n2"}}])"));
}

TEST_F(FilterTest, OneFittingNodeIsExpected) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  add_node(ledger, "n2: 0[100/512]");
  context({}, {"n1", "n2"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(FilterTest, OneFittingNodeIsExpectedByThePodsOwnCardPolicy) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  ledger.apply_pod(bound_claim("a", "n1", "10/1000", "0"));
  context({.annotations = R"("vke.volcengine.com/mgpu-policy":"spread")"}, {"n1"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=30/1024");
}

TEST_F(FilterTest, SeveralFittingNodesAreNotExpected) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  context({}, {"n1", "n2"});
  EXPECT_EQ(ledger.counts().expected, 0u);
}

TEST_F(FilterTest, AFilterEndsThePodsOldExpectation) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  context({}, {"n1"});
  ASSERT_EQ(ledger.counts().expected, 1u);
  context({}, {"n1", "n2"});
  EXPECT_EQ(ledger.counts().expected, 0u);
}

TEST_F(FilterTest, ExpectationsOfOthersNeverRefuse) {
  add_node(ledger, "n1: 0[100/8000]");
  context({.name = "first", .asks = {"100"}}, {"n1"});
  ASSERT_EQ(ledger.counts().expected, 1u);
  EXPECT_THAT(context({.name = "second", .asks = {"100"}}, {"n1"}).fitting, ElementsAre("n1"));
}

TEST_F(FilterTest, ExpectationsLapse) {
  add_node(ledger, "n1: 0[100/8000]");
  context({}, {"n1"});
  ledger.read(at_ms(0) + settings.expectation_life + Duration(1), [](const View&) {});
  EXPECT_EQ(ledger.counts().expected, 0u);
}

TEST_F(FilterTest, NothingIsExpectedWhereThatIsOff) {
  settings.expected_placements = false;
  add_node(ledger, "n1: 0[100/8000]");
  EXPECT_THAT(context({}, {"n1"}).fitting, ElementsAre("n1"));
  EXPECT_EQ(ledger.counts().expected, 0u);
}

TEST_F(FilterTest, NoCandidatesIsAnEmptyReply) {
  const auto reply = context({}, {});
  EXPECT_THAT(reply.fitting, IsEmpty());
  EXPECT_THAT(reply.failed_and_unresolvable, IsEmpty());
}

TEST_F(FilterTest, ChangesNothingButExpectations) {
  add_node(ledger, "n1: 0[100/8000]");
  context({}, {"n1"});
  EXPECT_EQ(mgpu::test::used_text(ledger, "n1"), "0=0/0");
  EXPECT_EQ(ledger.counts().assumed, 0u);
}

}  // namespace
}  // namespace mgpu::extender
