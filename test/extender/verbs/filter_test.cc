#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>

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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct FilterTest : testing::Test, test::VerbsWorld {
  FilterReply run_filter(const PodText& pod, const std::vector<std::string>& names) {
    args = std::make_unique<ExtenderArgs>(args_of(pod, names));
    return filter(*args, context, at_ms(0));
  }

  // Answers with all nodes that fit.
  FilterTest() { options.candidate_nodes = 0; }

  std::unique_ptr<ExtenderArgs> args;  // replies point into it
};

std::vector<std::string> texts(const std::vector<RefusedNode>& refusals) {
  std::vector<std::string> lines;
  for (const auto& refusal : refusals) {
    lines.push_back(std::string(refusal.node) + ": " + std::string(refusal.sentence));
  }
  return lines;
}

std::string line(const char* node, Reason reason) {
  return std::string(node) + ": " + std::string(sentence(reason));
}

// kube-scheduler counts how many pods wait, but not for what.
TEST_F(FilterTest, SaysWhatARejectedPodWaitsFor) {
  add_node(ledger, "free: 0[100/8000]");
  add_node(ledger, "busy: 0[100/8000] 1[100/8000]");
  add_node(ledger, "small: 0[100/512]");
  add_node(ledger, "sick: 0[100/8000 unhealthy]");
  ledger.apply_pod(bound_claim("a", "busy", "80/1000 80/1000", "0 | 1"));
  struct {
    std::vector<std::string> nodes;
    std::optional<Rejection> rejection;
  } const cases[] = {
      {{"busy", "free"}, std::nullopt},
      {{"busy"}, Rejection::kFragmentation},
      {{"small", "sick", "busy"}, Rejection::kFragmentation},
      {{"small", "sick"}, Rejection::kUnhealthy},
      {{"small"}, Rejection::kNeverFits},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(run_filter({}, one.nodes).rejection, one.rejection) << one.nodes.front();
  }
  EXPECT_EQ(run_filter({.requests = {"101/1024"}}, {"free"}).rejection, Rejection::kInvalid);
}

// Such a rejection is not delayed: a release makes the next search no shorter.
TEST_F(FilterTest, SaysThatASearchEndedAtItsBound) {
  std::string node = "n:";
  for (int card = 0; card < 8; ++card) node += " " + std::to_string(card) + "[100/100000]";
  add_node(ledger, node);
  PodText pod{.requests = {}};
  for (int core = 34; core <= 50; ++core) pod.requests.push_back(std::to_string(core) + "/300");
  const auto reply = run_filter(pod, {"n"});
  EXPECT_EQ(reply.outcome, FilterOutcome::kMayChangeLater);
  EXPECT_EQ(run_filter({.requests = {"60/1000", "60/200000"}}, {"n"}).outcome,
            FilterOutcome::kNeedsOtherCards);
  EXPECT_EQ(run_filter({.requests = {"101/1024"}}, {"n"}).outcome, FilterOutcome::kRejected);
}

TEST_F(FilterTest, EveryNodeIsEitherFittingOrRefusedWithItsSentence) {
  add_node(ledger, "free: 0[100/8000]");
  add_node(ledger, "busy: 0[100/8000]");
  add_node(ledger, "small: 0[100/512]");
  add_node(ledger, "none:");
  ledger.apply_pod(bound_claim("a", "busy", "80/1000", "0"));
  const auto reply = run_filter({}, {"busy", "free", "ghost", "none", "small"});
  EXPECT_THAT(reply.fitting, ElementsAre("free"));
  EXPECT_THAT(texts(reply.failed), ElementsAre(line("busy", Reason::kCore)));
  EXPECT_THAT(texts(reply.failed_and_unresolvable),
              ElementsAre(line("ghost", Reason::kNodeUnknown), line("none", Reason::kNoCards),
                          line("small", Reason::kCardsTooSmall)));
}

TEST_F(FilterTest, KeepsTheOrderOfTheRequest) {
  for (const char* node : {"c: 0[100/8000]", "a: 0[100/8000]", "b: 0[100/8000]"}) {
    add_node(ledger, node);
  }
  EXPECT_THAT(run_filter({}, {"c", "a", "b"}).fitting, ElementsAre("c", "a", "b"));
}

TEST_F(FilterTest, ANonGpuPodPassesEverywhereEvenOnUnknownNodes) {
  const auto reply = run_filter({.requests = {""}}, {"ghost", "other"});
  EXPECT_THAT(reply.fitting, ElementsAre("ghost", "other"));
  EXPECT_THAT(reply.failed_and_unresolvable, IsEmpty());
}

TEST_F(FilterTest, AnInvalidPodIsRefusedEverywhereWithOneSentence) {
  add_node(ledger, "n1: 0[100/8000]");
  const std::vector<PodText> pods = {
      {.requests = {"30"}},
      {.requests = {"150/1024"}},
      {.requests = {"30/1"}},
      {.requests = {"30/1024"}, .container = std::string(43, 'x')},
      {.annotations = R"("vke.volcengine.com/container-multiple-gpu":"x")"},
  };
  for (const auto& pod : pods) {
    const auto reply = run_filter(pod, {"n1", "ghost"});
    EXPECT_THAT(reply.fitting, IsEmpty());
    EXPECT_THAT(reply.failed, IsEmpty());
    ASSERT_EQ(reply.failed_and_unresolvable.size(), 2u);
    EXPECT_FALSE(reply.failed_and_unresolvable[0].sentence.empty());
    EXPECT_EQ(reply.failed_and_unresolvable[0].sentence, reply.failed_and_unresolvable[1].sentence);
  }
}

// With MPS a card has a limit of clients.
TEST_F(FilterTest, AShareWithLessThanTheLeastComputeIsRefused) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  options.min_core = Percent(3);
  EXPECT_THAT(run_filter({.requests = {"3/1024"}}, {"n1"}).fitting, ElementsAre("n1"));
  EXPECT_THAT(run_filter({.requests = {"200"}}, {"n1"}).fitting, ElementsAre("n1"));
  const auto reply = run_filter({.requests = {"3/1024", "2/1024"}}, {"n1"});
  ASSERT_EQ(reply.failed_and_unresolvable.size(), 1u);
  EXPECT_EQ(
      reply.failed_and_unresolvable[0].sentence,
      "invalid request: container \"c1\" requests 2 % of a card, and this cluster gives at least "
      "3 % (--min-core)");
}

TEST_F(FilterTest, AnUnknownPolicyIsRefusedEverywhereByName) {
  add_node(ledger, "n1: 0[100/8000]");
  const auto reply =
      run_filter({.annotations = R"("vke.volcengine.com/mgpu-policy":"best")"}, {"n1"});
  ASSERT_EQ(reply.failed_and_unresolvable.size(), 1u);
  EXPECT_THAT(reply.failed_and_unresolvable[0].sentence,
              testing::AllOf(HasSubstr("mgpu-policy"), HasSubstr("best"), HasSubstr("binpack")));
}

TEST_F(FilterTest, TheSentenceOfARefusedPodOutlivesCopiesOfTheReply) {
  FilterReply copy;
  {
    const auto reply = run_filter({.requests = {"30"}}, {"n1"});
    copy = reply;
  }
  EXPECT_THAT(write_filter_reply(copy, *args), HasSubstr("mgpu-memory"));
}

TEST_F(FilterTest, TheOnlyFittingNodeGetsAnExpectedPlacement) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  add_node(ledger, "n2: 0[100/512]");
  run_filter({}, {"n1", "n2"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=30/1024 1=0/0");
}

TEST_F(FilterTest, TheExpectedPlacementFollowsThePodsOwnCardPolicy) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  ledger.apply_pod(bound_claim("a", "n1", "10/1000", "0"));
  run_filter({.annotations = R"("vke.volcengine.com/mgpu-policy":"spread")"}, {"n1"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=0/0 1=30/1024");
}

TEST_F(FilterTest, SeveralFittingNodesGetNoExpectedPlacement) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  run_filter({}, {"n1", "n2"});
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(FilterTest, EndsTheOldExpectedPlacementOfThePod) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  run_filter({}, {"n1"});
  ASSERT_EQ(ledger.reader().counts().expected, 1u);
  run_filter({}, {"n1", "n2"});
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(FilterTest, ExpectedPlacementsOfOtherPodsNeverRefuse) {
  add_node(ledger, "n1: 0[100/8000]");
  run_filter({.name = "first", .requests = {"100"}}, {"n1"});
  ASSERT_EQ(ledger.reader().counts().expected, 1u);
  EXPECT_THAT(run_filter({.name = "second", .requests = {"100"}}, {"n1"}).fitting,
              ElementsAre("n1"));
}

TEST_F(FilterTest, ExpectedPlacementsExpire) {
  add_node(ledger, "n1: 0[100/8000]");
  run_filter({}, {"n1"});
  ledger.reader().read(at_ms(0) + options.expectation_life + Duration(1), [](const View&) {});
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

TEST_F(FilterTest, RecordsNoExpectedPlacementWhereThatIsOff) {
  options.expected_placements = false;
  add_node(ledger, "n1: 0[100/8000]");
  EXPECT_THAT(run_filter({}, {"n1"}).fitting, ElementsAre("n1"));
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

// kube-scheduler has reserved the node for the first pod, and waits until its volume exists there.
TEST_F(FilterTest, APodThatIsNominatedAfterFilterKeepsItsCards) {
  const PodText first{.name = "first", .requests = {"60/1000"}};
  const PodText second{.name = "second", .requests = {"60/1000"}};
  for (const std::size_t candidates : {0u, 1u}) {
    options.candidate_nodes = candidates;
    add_node(ledger, "n1: 0[100/8000]");
    ASSERT_THAT(run_filter(first, {"n1"}).fitting, ElementsAre("n1"));
    EXPECT_THAT(run_filter(second, {"n1"}).fitting, ElementsAre("n1")) << "not nominated yet";
    ledger.reservations().nominate(PodUid("uid-first"), NodeName("n1"));
    const auto reply = run_filter(second, {"n1"});
    EXPECT_THAT(texts(reply.failed), ElementsAre(line("n1", Reason::kNominated)));
    EXPECT_EQ(reply.outcome, FilterOutcome::kMayChange);
    EXPECT_THAT(run_filter(first, {"n1"}).fitting, ElementsAre("n1"));
    ledger.remove_node(NodeName("n1"));
  }
}

TEST_F(FilterTest, APodThatPrioritizeHasChosenANodeForKeepsItsCards) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  ledger.apply_pod(bound_claim("a", "n1", "10/1000", "0"));
  prioritize(args_of({.name = "first", .requests = {"60/1000"}}, {"n1", "n2"}), context, at_ms(0));
  ledger.reservations().nominate(PodUid("uid-first"), NodeName("n1"));
  EXPECT_THAT(run_filter({.name = "second", .requests = {"60/1000"}}, {"n1", "n2"}).fitting,
              ElementsAre("n2"));
}

// Until kube-scheduler says whether such a pod waits.
TEST_F(FilterTest, APodWithAVolumeKeepsItsCardsForAMoment) {
  const PodText first{.name = "first",
                      .requests = {"60/1000"},
                      .spec = R"("volumes":[{"name":"v","persistentVolumeClaim":{}}],)"};
  add_node(ledger, "n1: 0[100/8000]");
  run_filter(first, {"n1"});
  EXPECT_THAT(run_filter({.name = "second", .requests = {"60/1000"}}, {"n1"}).fitting, IsEmpty());
  ledger.reader().releases(at_ms(0) + options.expectation_life);
  EXPECT_THAT(run_filter({.name = "second", .requests = {"60/1000"}}, {"n1"}).fitting,
              ElementsAre("n1"));
}

// kube-scheduler asks about all members of a group before it binds the first: a card that has room
// for one of them must not be promised twice, or a part of the group is bound.
TEST_F(FilterTest, AMemberOfAGroupKeepsItsCardsForAMoment) {
  const std::pair<std::string, std::string> groups[] = {
      {R"("schedulingGroup":{"podGroupName":"g"},)", ""},
      {"", R"("labels":{"scheduling.x-k8s.io/pod-group":"g"},)"}};
  for (const auto& [spec, metadata] : groups) {
    const auto member = [&](const std::string& name) {
      return PodText{.name = name, .requests = {"45/1000"}, .spec = spec, .metadata = metadata};
    };
    add_node(ledger, "n1: 0[100/8000]");
    ledger.apply_pod(bound_claim("a", "n1", "50/1000", "0"));
    EXPECT_THAT(run_filter(member("first"), {"n1"}).fitting, ElementsAre("n1"));
    EXPECT_THAT(run_filter(member("second"), {"n1"}).fitting, IsEmpty());
    EXPECT_THAT(run_filter(member("first"), {"n1"}).fitting, ElementsAre("n1"));
    ledger.reader().releases(at_ms(0) + options.expectation_life);
    EXPECT_THAT(run_filter(member("second"), {"n1"}).fitting, ElementsAre("n1"));
    ledger.remove_pod(PodUid("uid-second"));
    ledger.remove_node(NodeName("n1"));
  }
}

TEST_F(FilterTest, NoCandidatesGiveAnEmptyReply) {
  const auto reply = run_filter({}, {});
  EXPECT_THAT(reply.fitting, IsEmpty());
  EXPECT_THAT(reply.failed_and_unresolvable, IsEmpty());
}

// As shipped: the answer has the best node only.
TEST_F(FilterTest, ABoundPodFitsOnItsNodeAlone) {
  for (const char* node : {"n1: 0[100/1000]", "n2: 0[100/1000]"}) add_node(ledger, node);
  ledger.apply_pod(bound_claim("uid-p", "n1", "60/600", "0"));
  const PodText bound{.requests = {"60/600"}, .spec = R"("nodeName":"n1",)"};
  for (const std::size_t candidates : {0u, 1u}) {
    options.candidate_nodes = candidates;
    const auto reply = run_filter(bound, {"n1", "n2"});
    EXPECT_THAT(reply.fitting, ElementsAre("n1"));
    EXPECT_THAT(texts(reply.failed_and_unresolvable),
                ElementsAre("n2: the pod is bound to node n1"));
  }
  EXPECT_EQ(ledger.reader().counts().expected, 0u);
}

struct BestNodeTest : FilterTest {
  BestNodeTest() { options.candidate_nodes = 1; }
};

TEST_F(BestNodeTest, TheAnswerIsTheNodeThatPrioritizePrefers) {
  for (const char* node : {"a: 0[100/8000]", "b: 0[100/8000]", "c: 0[100/8000]"})
    add_node(ledger, node);
  ledger.apply_pod(bound_claim("x", "b", "40/1000", "0"));
  const auto reply = run_filter({}, {"a", "b", "c"});
  EXPECT_THAT(reply.fitting, ElementsAre("b")) << "binpack prefers it";
  EXPECT_EQ(reply.nodes_fitting, 3u);
  EXPECT_EQ(prioritize(args_of({}, {"a", "b", "c"}), context, at_ms(0))[1].score, 10);
}

TEST_F(BestNodeTest, OfEqualNodesTheFirstByNameIsTheAnswerWhereTheOptionsSaySo) {
  add_node(ledger, "b: 0[100/8000]");
  add_node(ledger, "a: 0[100/8000]");
  options.expected_placements = false;
  for (int pod = 0; pod < 20; ++pod) {
    const auto reply = run_filter({.name = "pod-" + std::to_string(pod)}, {"b", "a"});
    EXPECT_THAT(reply.fitting, ElementsAre("a"));
  }
}

TEST_F(BestNodeTest, EqualNodesAreTheAnswerForAboutAsManyPods) {
  constexpr int kPods = 400;
  std::vector<std::string> names;
  for (const char node : {'a', 'b', 'c', 'd'}) {
    names.emplace_back(1, node);
    add_node(ledger, names.back() + ": 0[100/8000]");
  }
  options.ties_by_name = false;
  options.expected_placements = false;
  std::map<std::string, int> chosen;
  for (int pod = 0; pod < kPods; ++pod) {
    const PodText spec{.name = "pod-" + std::to_string(pod)};
    const std::string first(run_filter(spec, names).fitting.front());
    std::ranges::reverse(names);
    ASSERT_THAT(run_filter(spec, names).fitting, ElementsAre(first)) << "the same node again";
    ++chosen[first];
  }
  for (const auto& [node, pods] : chosen)
    EXPECT_THAT(pods, testing::AllOf(testing::Gt(kPods / 8), testing::Lt(kPods / 2))) << node;
  EXPECT_THAT(chosen, testing::SizeIs(4));
}

// --- a node that has refused the pod after filter ------------------------------------------------

struct RefusalTest : BestNodeTest {
  RefusalTest() {
    for (const char* node : {"a: 0[100/8000]", "b: 0[100/8000]", "c: 0[100/8000]"})
      add_node(ledger, node);
  }
  std::string ask(int minutes, const std::vector<std::string>& names = {"a", "b", "c"}) {
    args = std::make_unique<ExtenderArgs>(args_of({}, names));
    const auto reply = filter(*args, remembering, at_ms(minutes * 60'000));
    return reply.fitting.empty() ? "" : std::string(reply.fitting.front());
  }
  AnsweredNodes answered;
  const VerbContext remembering{options, ledger, budgets, prices, &window, &answered};
};

TEST_F(RefusalTest, ANodeThatRefusesThePodIsNotAnsweredAgainWhileAnotherFits) {
  const std::string first = ask(0);
  const std::string second = ask(0);
  const std::string third = ask(0);
  EXPECT_THAT((std::set{first, second, third}), testing::SizeIs(3));
  EXPECT_EQ(ask(1), first) << "it is not avoided any more";
}

TEST_F(RefusalTest, ItIsAnsweredWhereNoOtherFits) {
  const std::string first = ask(0);
  EXPECT_EQ(ask(0, {first}), first) << "a volume may tie the pod to it";
}

TEST_F(RefusalTest, AnotherPodIsAnsweredTheSameNode) {
  const std::string first = ask(0);
  ask(0);
  args = std::make_unique<ExtenderArgs>(args_of({.name = "other"}, {first}));
  EXPECT_THAT(filter(*args, remembering, at_ms(0)).fitting, ElementsAre(first));
}

TEST_F(RefusalTest, TheScoresAvoidItToo) {
  options.candidate_nodes = 0;
  const auto scores = [&] {
    ask(0);
    std::map<std::string, std::int64_t> by_node;
    const auto sent = args_of({}, {"a", "b", "c"});
    for (const HostScore& one : prioritize(sent, remembering, at_ms(0)))
      by_node[std::string(one.node)] = one.score;
    return by_node;
  };
  const auto before = scores();
  const auto after = scores();
  for (const auto& [node, score] : before) {
    if (score == 10) {
      EXPECT_EQ(after.at(node), 0) << node;
    }
  }
}

TEST_F(BestNodeTest, NoNodeIsRefusedWhereOneFits) {
  add_node(ledger, "big: 0[100/8000]");
  add_node(ledger, "small: 0[100/512]");
  const auto reply = run_filter({}, {"small", "big", "ghost"});
  EXPECT_THAT(reply.fitting, ElementsAre("big"));
  EXPECT_EQ(reply.nodes_fitting, 1u);
  EXPECT_THAT(reply.failed, IsEmpty());
  EXPECT_THAT(reply.failed_and_unresolvable, IsEmpty());
}

TEST_F(BestNodeTest, WhereNoNodeFitsEachHasItsReason) {
  add_node(ledger, "small: 0[100/512]");
  const auto reply = run_filter({}, {"small", "ghost"});
  EXPECT_THAT(reply.fitting, IsEmpty());
  EXPECT_THAT(
      texts(reply.failed_and_unresolvable),
      ElementsAre(line("small", Reason::kCardsTooSmall), line("ghost", Reason::kNodeUnknown)));
}

// kube-scheduler asks about all nodes that pass its own filters, or about 100 at least.
struct ManyNodesTest : BestNodeTest {
  ManyNodesTest() {
    for (int i = 0; i < 100; ++i) {
      asked.push_back("small" + std::to_string(i));
      add_node(ledger, asked.back() + ": 0[100/512]");
    }
  }
  void add_large_node() {
    NodeFacts facts = mgpu::test::facts_of("large: 0[100/8000]");
    facts.allocatable = {MilliCpu(8'000), MiB(65'536)};
    facts.pods_allowed = 110;
    ledger.apply_node(std::move(facts));
  }
  const PodText cpus{.spec = R"("overhead":{"cpu":"9"},)"};
  std::vector<std::string> asked;
};

TEST_F(ManyNodesTest, FindsThatAnotherNodeFits) {
  EXPECT_THAT(run_filter({}, asked).fitting_elsewhere, IsEmpty());
  EXPECT_EQ(run_filter({}, asked).outcome, FilterOutcome::kNeedsOtherCards);
  add_large_node();
  EXPECT_THAT(run_filter({}, asked).fitting_elsewhere, ElementsAre("large"));
  EXPECT_EQ(run_filter({}, asked).outcome, FilterOutcome::kMayChangeLater);
  EXPECT_THAT(run_filter({}, asked).failed_and_unresolvable, testing::SizeIs(100));
}

TEST_F(ManyNodesTest, ANodeWithoutEnoughCpuDoesNotFit) {
  add_large_node();
  EXPECT_THAT(run_filter(cpus, asked).fitting_elsewhere, IsEmpty());
}

TEST_F(ManyNodesTest, ANodeThatKeepsThePodOutDoesNotFit) {
  add_large_node();
  EXPECT_THAT(run_filter({.spec = R"("nodeSelector":{"pool":"a"},)"}, asked).fitting_elsewhere,
              IsEmpty());
  NodeFacts facts = mgpu::test::facts_of("large: 0[100/8000]");
  facts.allocatable = {MilliCpu(8'000), MiB(65'536)};
  facts.pods_allowed = 110;
  facts.gates.taints.push_back({.key = "k", .value = "", .effect = "NoSchedule", .time_added = ""});
  ledger.apply_node(std::move(facts));
  EXPECT_THAT(run_filter({}, asked).fitting_elsewhere, IsEmpty());
  const PodText tolerates{.spec = R"("tolerations":[{"operator":"Exists"}],)"};
  EXPECT_THAT(run_filter(tolerates, asked).fitting_elsewhere, ElementsAre("large"));
}

TEST_F(ManyNodesTest, FewerNodesThanKubeSchedulerExaminesAtLeastAreAllThatPass) {
  add_large_node();
  asked.pop_back();
  EXPECT_THAT(run_filter({}, asked).fitting_elsewhere, IsEmpty());
}

TEST_F(ManyNodesTest, WhereANodeFitsNoOtherIsLookedFor) {
  add_large_node();
  asked.push_back("large");
  const auto reply = run_filter({}, asked);
  EXPECT_THAT(reply.fitting, ElementsAre("large"));
  EXPECT_THAT(reply.fitting_elsewhere, IsEmpty());
}

// Pods of one group search for such a node together.
TEST_F(ManyNodesTest, PodsThatMayRunOnTheSameNodesAreAGroup) {
  add_large_node();
  const auto group = [this](const PodText& pod) { return run_filter(pod, asked).replica_group; };
  const std::uint64_t first = group({.name = "a"});
  EXPECT_NE(first, 0u);
  EXPECT_EQ(group({.name = "b", .spec = R"("serviceAccountName":"x",)"}), first);
  const PodText others[] = {{.requests = {"31/1024"}},
                            {.requests = {"30/1024", "30/1024"}},
                            {.annotations = R"("vke.volcengine.com/gpu-model":"A")"},
                            {.priority = 1},
                            {.spec = R"("nodeSelector":{"pool":"a"},)"},
                            {.spec = R"("tolerations":[{"operator":"Exists"}],)"},
                            {.spec = R"("affinity":{"nodeAffinity":{
                                "requiredDuringSchedulingIgnoredDuringExecution":{
                                "nodeSelectorTerms":[{"matchExpressions":[{"key":"k"}]}]}}},)"},
                            cpus};
  std::set<std::uint64_t> groups = {first};
  for (const PodText& pod : others) groups.insert(group(pod));
  EXPECT_EQ(groups.size(), 1 + std::size(others));
  const std::string claims = R"("resourceClaims":[{"name":"c"}],)";
  EXPECT_NE(group({.name = "a", .spec = claims}), group({.name = "b", .spec = claims}));
  asked.pop_back();
  EXPECT_EQ(group({}), 0u) << "all nodes were examined";
}

TEST_F(BestNodeTest, TheAnswerGetsAnExpectedPlacement) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  run_filter({}, {"n1", "n2"});
  EXPECT_EQ(expected_text(ledger, "n1"), "0=30/1024");
}

TEST_F(BestNodeTest, ANodeBesideExpectedPlacementsIsBetter) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "n2: 0[100/8000]");
  EXPECT_THAT(run_filter({.name = "first", .requests = {"100"}}, {"n1", "n2"}).fitting,
              ElementsAre("n1"));
  EXPECT_THAT(run_filter({.name = "second", .requests = {"100"}}, {"n1", "n2"}).fitting,
              ElementsAre("n2"));
  EXPECT_THAT(run_filter({.name = "third", .requests = {"100"}}, {"n1"}).fitting,
              ElementsAre("n1"));
}

TEST_F(BestNodeTest, SeveralCandidatesAreTheBestInTheOrderOfTheRequest) {
  options.candidate_nodes = 2;
  for (const char* node : {"a: 0[100/8000]", "b: 0[100/8000]", "c: 0[100/8000]"})
    add_node(ledger, node);
  ledger.apply_pod(bound_claim("x", "a", "20/1000", "0"));
  ledger.apply_pod(bound_claim("y", "c", "40/1000", "0"));
  EXPECT_THAT(run_filter({}, {"c", "b", "a"}).fitting, ElementsAre("c", "a"));
  EXPECT_EQ(ledger.reader().counts().expected, 0u) << "prioritize records it";
}

TEST_F(BestNodeTest, ANonGpuPodPassesEverywhere) {
  EXPECT_THAT(run_filter({.requests = {""}}, {"ghost", "other"}).fitting,
              ElementsAre("ghost", "other"));
}

// Users cannot see the cards of the cluster.
TEST_F(FilterTest, AReasonAboutModelsNamesThoseThatThereAre) {
  add_node(ledger, "n1: 0[100/8000 model=NVIDIA-A100-SXM4]");
  add_node(ledger, "n2: 0[100/8000 model=Tesla-T4]");
  add_node(ledger, "full: 0[10/8000 model=T4]");
  const std::string model = R"("vke.volcengine.com/gpu-model":)";
  const std::vector<std::string> all = {"n1", "n2", "full"};
  const auto refused = run_filter({.annotations = model + "\"H100\""}, all);
  const std::string no_match(sentence(Reason::kNoCardMatches));
  const std::string models = no_match + "; the cards are NVIDIA-A100-SXM4, T4 and Tesla-T4";
  EXPECT_THAT(texts(refused.failed_and_unresolvable),
              ElementsAre("n1: " + models, "n2: " + models, "full: " + models));
  EXPECT_EQ(refused.rejection, Rejection::kNeverFits);
  // The label of the node, which excludes as well.
  const std::string excluded = R"("vke.volcengine.com/gpu-model-exclude":)";
  const PodText no_a100{.annotations = excluded + "\"NVIDIA A100 SXM4, nvidia-tesla-t4\""};
  EXPECT_THAT(run_filter(no_a100, {"n1", "n2"}).fitting, IsEmpty());
  EXPECT_THAT(run_filter({.annotations = model + "\"a100-sxm4-shared\""}, all).fitting,
              ElementsAre("n1"));
}

TEST_F(FilterTest, ChangesNothingButExpectedPlacements) {
  add_node(ledger, "n1: 0[100/8000]");
  run_filter({}, {"n1"});
  EXPECT_EQ(mgpu::test::used_text(ledger, "n1"), "0=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST_F(FilterTest, KubeSchedulerChoosesForAPodThatPrefersSomeNodes) {
  options.candidate_nodes = 1;
  for (const char* node : {"n1: 0[100/8000]", "n2: 0[100/8000]", "n3: 0[100/512]"})
    add_node(ledger, node);
  const std::string terms = R"("preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}])";
  for (const std::string& spec :
       {R"("affinity":{"nodeAffinity":{)" + terms + "}},",
        R"("affinity":{"podAffinity":{)" + terms + "}},",
        R"("affinity":{"podAntiAffinity":{)" + terms + "}},",
        std::string(R"("topologySpreadConstraints":[{"whenUnsatisfiable":"ScheduleAnyway"}],)")}) {
    EXPECT_THAT(run_filter({.spec = spec}, {"n1", "n2", "n3"}).fitting, ElementsAre("n1", "n2"))
        << spec;
    const auto scores = prioritize(args_of({.spec = spec}, {"n1", "n2", "n3"}), context, at_ms(0));
    EXPECT_EQ(scores[0].score, 10) << spec;
    EXPECT_EQ(scores[1].score, 10) << spec;
    EXPECT_EQ(scores[2].score, 0) << spec;
    const std::string group = spec + R"("schedulingGroup":{"podGroupName":"g"},)";
    EXPECT_THAT(run_filter({.spec = group}, {"n1", "n2", "n3"}).fitting, ElementsAre("n1"))
        << "its cards are reserved there";
  }
  for (const std::string& spec :
       {std::string(R"("topologySpreadConstraints":[{"whenUnsatisfiable":"DoNotSchedule"}],)"),
        std::string(R"("affinity":{"nodeAffinity":{},"podAffinity":null},)")}) {
    EXPECT_THAT(run_filter({.name = "q", .spec = spec}, {"n1", "n2", "n3"}).fitting,
                ElementsAre("n1"))
        << spec;
  }
}

}  // namespace
}  // namespace mgpu::extender
