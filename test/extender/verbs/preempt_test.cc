#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/ledger/disruption_budgets.h"
#include "extender/ledger/limits.h"
#include "extender/placement/limits.h"
#include "extender/placement/reason.h"
#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender {
namespace {

using mgpu::test::assume_text;
using mgpu::test::at_ms;
using mgpu::test::bound_claim;
using test::add_node;
using test::PodText;
using testing::ElementsAre;
using testing::IsEmpty;

std::string budget_json(const std::string& name, const std::string& selector, int allowed) {
  return R"({"metadata":{"namespace":"d","name":")" + name + R"("},"spec":{"selector":)" +
         selector + R"(},"status":{"disruptionsAllowed":)" + std::to_string(allowed) + "}}";
}

struct PreemptTest : testing::Test, test::VerbsWorld {
  // A node with 32 CPUs and 64 GiB for 110 pods.
  void add_whole_node(std::string_view text, std::int64_t pods_allowed = 110) {
    NodeFacts facts = mgpu::test::facts_of(text);
    facts.allocatable = {MilliCpu(32'000), MiB(65'536)};
    facts.pods_allowed = pods_allowed;
    ledger.apply_node(std::move(facts));
  }

  // The same as put, for a pod that requests CPUs.
  void put_with_cpu(const std::string& uid, const char* request, const char* cards, int cpus,
                    bool anti_affinity = false, const char* start = "2024-01-01T00:00:00Z") {
    Claim claim = bound_claim(uid, "n1", request, cards);
    claim.start_time = start;
    claim.resources.cpu = MilliCpu(cpus * 1000);
    claim.anti_affinity = anti_affinity;
    ledger.apply_pod(claim);
  }

  void put_non_gpu(const std::string& uid, int cpus) {
    ledger.apply_non_gpu({PodUid(uid), NodeName("n1"), {MilliCpu(cpus * 1000), {}}});
  }

  // A pod on `node` with a label "app" of its own name.
  void put(const std::string& uid, const char* node, const char* request, const char* cards,
           int priority = 0, const std::string& start = "2024-01-01T00:00:00Z") {
    Claim claim = bound_claim(uid, node, request, cards);
    claim.pod.name_space = "d";
    claim.priority = priority;
    claim.start_time = start;
    claim.labels = {{"app", uid}};
    ledger.apply_pod(claim);
  }

  static NodeVictims proposal(const char* node, const std::vector<std::string>& uids,
                              int violations = 0) {
    NodeVictims victims{NodeName(node), {}, violations};
    for (const auto& uid : uids) victims.victims.push_back(PodUid(uid));
    return victims;
  }

  // "n1: a b (1)" for each node: victims, and the PDB violations.
  std::vector<std::string> run_preempt(const PodText& pod, const std::vector<NodeVictims>& nodes) {
    const auto args = read_preemption_args(R"({"Pod":)" + test::pod_json(pod) + "}");
    std::vector<std::string> lines;
    for (const auto& node : preempt({args->pod, nodes}, context, at_ms(0))) {
      lines.push_back(node.node.str() + ":");
      for (const auto& victim : node.victims) lines.back() += " " + victim.str();
      lines.back() += " (" + std::to_string(node.pdb_violations) + ")";
    }
    return lines;
  }

  // "p on n1; evicts d/a d/b", with the pods that preempt one after another, or "nobody".
  std::string run_together(const std::vector<PodText>& pods, const std::vector<std::string>& nodes,
                           const Spared& spared = {}) {
    std::vector<kube::Pod> sent;
    for (const PodText& pod : pods)
      sent.push_back(read_preemption_args(R"({"Pod":)" + test::pod_json(pod) + "}")->pod);
    const auto chosen =
        preempt_by_card(sent, nodes, spared, ledger.reservations().answers(), context, at_ms(0));
    if (!chosen) return "nobody";
    std::string text;
    for (const auto& [pod, node] : chosen->pods)
      text += pod.metadata.name + " on " + node.str() + "; ";
    text += "evicts";
    for (const auto& victim : chosen->victims) text += " " + to_string(victim.pod);
    return text;
  }

  // "n1: d/a d/b", or "nobody".
  std::string run_by_card(const PodText& pod, const std::vector<std::string>& nodes,
                          const Spared& spared = {}) {
    const std::string text = run_together({pod}, nodes, spared);
    if (text == "nobody") return text;
    const std::size_t node = text.find(" on ") + 4;
    return text.substr(node, text.find(';') - node) + ":" + text.substr(text.find("evicts") + 6);
  }

  kube::ObjectEvents<kube::PodDisruptionBudget> budget_events{budgets.consumer()};
};

// A node with two cards, each with two halves of equal cost.
struct HalvesTest : PreemptTest {
  HalvesTest() {
    add_whole_node("n1: 0[100/8000] 1[100/8000]");
    for (const char* uid : {"a", "b"}) put(uid, "n1", "50/1000", "0");
    for (const char* uid : {"c", "d"}) put(uid, "n1", "50/1000", "1");
  }
  const PodText whole_card{.requests = {"100"}, .priority = 9};
};

TEST_F(HalvesTest, TheSameVictimsAreChosenAgainAfterTheyHaveChanged) {
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a", "c"})}), ElementsAre("n1: a b (0)"));
  for (const char* uid : {"a", "b"}) put(uid, "n1", "50/1000", "0");
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a", "c"})}), ElementsAre("n1: a b (0)"));
}

TEST_F(HalvesTest, AfterOneVictimIsGoneTheOtherOneIsChosenAgain) {
  ledger.remove_pod(PodUid("d"));
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a"})}), ElementsAre("n1: c (0)"));
}

// A pod of high priority that requests one card and this many CPUs.
PodText whole_card_and(const std::string& cpus) {
  return {.requests = {"100"}, .priority = 9, .spec = R"("overhead":{"cpu":")" + cpus + "\"},"};
}

TEST_F(PreemptTest, TheProposalStandsWhereItFreesTheCards) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put_with_cpu("a", "50/1000", "0", 30);
  put_with_cpu("b", "100/1000", "1", 1, false, "2024-01-02T00:00:00Z");
  // Without b a card is free, too, but not the CPUs.
  EXPECT_THAT(run_preempt(whole_card_and("30"), {proposal("n1", {"a"})}), ElementsAre("n1: a (0)"));
}

// kube-scheduler 1.37 asks so for a pod whose resize waits. Its cards are not to be freed again.
TEST_F(PreemptTest, ForABoundPodTheProposalStandsOnItsNode) {
  add_whole_node("n1: 0[100/1000]");
  put("uid-p", "n1", "60/600", "0", 10);
  put("low", "n1", "40/400", "0");
  const PodText bound{.requests = {"60/600"}, .priority = 10, .spec = R"("nodeName":"n1",)"};
  EXPECT_THAT(run_preempt(bound, {proposal("n1", {"low"}), proposal("n2", {"x"})}),
              ElementsAre("n1: low (0)"));
  EXPECT_EQ(ledger.reader().counts().nominated, 0u);
}

TEST_F(PreemptTest, VictimsThatReplaceTheProposalFreeItsResources) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put_with_cpu("a", "50/1000", "0", 1);
  put_with_cpu("b", "30/1000", "1", 30);
  put_with_cpu("c", "30/1000", "1", 1);
  // The cards alone need only a.
  EXPECT_THAT(run_preempt(whole_card_and("1"), {proposal("n1", {"b"})}), ElementsAre("n1: a (0)"));
  EXPECT_THAT(run_preempt(whole_card_and("5"), {proposal("n1", {"b"})}),
              ElementsAre("n1: a b (0)"));
}

TEST_F(PreemptTest, PlacesForPodsAreResourcesToo) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]", 4);
  put_with_cpu("a", "50/1000", "0", 0);
  put_with_cpu("b", "30/1000", "1", 0);
  put_with_cpu("c", "30/1000", "1", 0);
  put_non_gpu("other", 0);
  EXPECT_THAT(run_preempt(whole_card_and("1"), {proposal("n1", {"b"})}), ElementsAre("n1: a (0)"));
  put_non_gpu("more-than-allowed", 0);
  EXPECT_THAT(run_preempt(whole_card_and("1"), {proposal("n1", {"b"})}),
              ElementsAre("n1: a b (0)"));
}

// kube-scheduler waits for the answer, and schedules no other pod meanwhile.
TEST_F(PreemptTest, TheSearchesOnAllNodesTogetherAreBounded) {
  std::vector<NodeVictims> proposals;
  for (int i = 0; i < 100; ++i) {
    const std::string node = "n" + std::to_string(i);
    std::string cards = node + ":";
    for (int card = 0; card < 8; ++card) cards += " " + std::to_string(card) + "[100/32510]";
    add_whole_node(cards);
    put("low-" + node, node.c_str(), "40/32000", "0", -10);
    proposals.push_back(proposal(node.c_str(), {"low-" + node}));
  }
  PodText pod{.requests = {}};
  for (int i = 0; i < 17; ++i) pod.requests.push_back("1/" + std::to_string(11'000 + i));
  const auto steps_of_a_call = [&] {
    const std::uint64_t before = ledger.reader().counts().search_steps;
    run_preempt(pod, proposals);
    return ledger.reader().counts().search_steps - before;
  };
  constexpr std::uint64_t kOfANode = 8 * kPlacementStepsMax;
  const std::uint64_t first = steps_of_a_call();
  EXPECT_GT(first, kOfANode);
  EXPECT_LE(first, kSearchStepsSaved + kOfANode);
  EXPECT_LE(steps_of_a_call(), kSearchStepsLeast + kOfANode) << "of the next call";
}

TEST_F(PreemptTest, NoProposedVictimIsLeftOutThatMayBeNeededForMoreThanResources) {
  const char* const specs[] = {
      R"("volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}],)",
      R"("resourceClaims":[{"name":"r"}],)",
      R"("topologySpreadConstraints":[{"maxSkew":1}],)",
      R"("affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}},)",
      R"("affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}},)",
      R"("initContainers":[{"name":"i","ports":[{"hostPort":80}]}],)",
      R"("initContainers":[{"name":"i","resources":{"requests":{"example.com/nic":"1"}}}],)",
      R"("overhead":{"ephemeral-storage":"1Gi"},)",
  };
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put_with_cpu("a", "50/1000", "0", 1);
  put_with_cpu("b", "50/1000", "1", 1);
  put_with_cpu("c", "50/1000", "1", 1);
  PodText pod{.requests = {"100"}, .priority = 9};
  EXPECT_THAT(run_preempt(pod, {proposal("n1", {"b"})}), ElementsAre("n1: a (0)"));
  pod.spec = R"("volumes":[{"name":"v","emptyDir":{}}],"affinity":{"podAffinity":{}},)";
  EXPECT_THAT(run_preempt(pod, {proposal("n1", {"b"})}), ElementsAre("n1: a (0)"));
  for (const char* const spec : specs) {
    pod.spec = spec;
    EXPECT_THAT(run_preempt(pod, {proposal("n1", {"b"})}), ElementsAre("n1: a b (0)")) << spec;
  }
}

TEST_F(PreemptTest, AProposedVictimWithAntiAffinityIsNotLeftOut) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put_with_cpu("a", "50/1000", "0", 1);
  put_with_cpu("b", "50/1000", "1", 1, true);
  put_with_cpu("c", "50/1000", "1", 1);
  EXPECT_THAT(run_preempt(whole_card_and("1"), {proposal("n1", {"b"})}),
              ElementsAre("n1: a b (0)"));
}

TEST_F(PreemptTest, TheProposalIsOnlyExtendedWhereTheResourcesOfTheNodeAreNotKnown) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put_with_cpu("a", "50/1000", "0", 1);
  put_with_cpu("b", "50/1000", "1", 1);
  put_with_cpu("c", "50/1000", "1", 1);
  EXPECT_THAT(run_preempt(whole_card_and("1"), {proposal("n1", {"b"})}),
              ElementsAre("n1: a b (0)"));
}

TEST_F(PreemptTest, ProposedVictimsWithoutCardsAreLeftOutWhereTheyAreNotNeeded) {
  add_whole_node("n1: 0[100/8000]");
  put_with_cpu("a", "50/1000", "0", 10);
  put_with_cpu("b", "50/1000", "0", 1);
  put_non_gpu("cpu", 20);
  // The proposal frees 50 % of the card; with a, there are 10 CPUs more.
  EXPECT_THAT(run_preempt(whole_card_and("9"), {proposal("n1", {"b", "cpu"})}),
              ElementsAre("n1: a b (0)"));
  EXPECT_THAT(run_preempt(whole_card_and("25"), {proposal("n1", {"b", "cpu"})}),
              ElementsAre("n1: a b cpu (0)"));
}

TEST_F(PreemptTest, EvictsPodsThatFreeACardNotOnlyTheSum) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n1", "50/1000", "1");
  put("c", "n1", "50/1000", "1");
  // The sums say that one of b and c is enough; a whole card needs all of card 0.
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"b"})}),
              ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, NoPodOfAGroupIsAddedToTheProposal) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  Claim claim = bound_claim("a", "n1", "50/1000", "0");
  claim.group = claim.pod.name_space + "/train";
  claim.in_pod_group = true;
  ledger.apply_pod(claim);
  put("b", "n1", "50/1000", "1");
  put("c", "n1", "50/1000", "1");
  const PodText whole_card{.requests = {"100"}, .priority = 9};
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"b"})}), ElementsAre("n1: b c (0)"));
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a"})}), ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, NeverEvictsEqualOrHigherPriority) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "50/1000", "0", 9);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a"})}),
              IsEmpty());
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 10}, {proposal("n1", {"a"})}),
              ElementsAre("n1: a (0)"));
}

// The API server may not have the binding yet, but kube-scheduler counts the pod on its node.
TEST_F(PreemptTest, APodWhoseBindIsInFlightIsAVictimIfItIsProposed) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  ASSERT_EQ(assume_text(ledger, "a", "n1", "50/1000"), "0");
  put("b", "n1", "50/1000", "1", 5);
  const PodText whole_card{.requests = {"100"}, .priority = 9};
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a"})}), ElementsAre("n1: a (0)"));
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"cpu"})}), ElementsAre("n1: b cpu (0)"));
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 0}, {proposal("n1", {"a"})}),
              IsEmpty());
}

TEST_F(PreemptTest, ProposedVictimsThatAreNotKnownStay) {
  add_whole_node("n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n1", "50/1000", "1", 5);
  put("c", "n1", "50/1000", "1", 5);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"cpu", "b"}, 3)}),
              ElementsAre("n1: a cpu (0)"));
}

// From 1.37 on kube-scheduler proposes the members of a group on all nodes as one victim, but fails
// the whole preemption where the answer for a node has pods of another one.
TEST_F(PreemptTest, ProposedVictimsOfOtherNodesAreLeftOut) {
  add_whole_node("n1: 0[100/8000]");
  add_whole_node("n2: 0[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n2", "50/1000", "0");
  put_non_gpu("cpu", 1);
  const PodText whole_card{.requests = {"100"}, .priority = 9};
  EXPECT_THAT(run_preempt(whole_card, {proposal("n1", {"a", "b", "cpu"}, 1),
                                       proposal("n2", {"a", "b", "cpu"}, 1)}),
              ElementsAre("n1: a cpu (1)", "n2: b (1)"));
  const PodText bound{.requests = {"50/1000"}, .priority = 9, .spec = R"("nodeName":"n1",)"};
  EXPECT_THAT(run_preempt(bound, {proposal("n1", {"b", "a"})}), ElementsAre("n1: a (0)"));
  EXPECT_THAT(run_preempt(bound, {proposal("n1", {"b"})}), IsEmpty());
}

TEST_F(PreemptTest, TheProposedVictimsStayWhereTheCardsAreFreeAlready) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a", "cpu"}, 2)}),
              ElementsAre("n1: a cpu (2)"));
}

TEST_F(PreemptTest, NoNodeIsAnsweredWithoutVictims) {
  add_node(ledger, "n1: 0[100/8000]");
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {})}), IsEmpty());
}

TEST_F(PreemptTest, UnchangedVictimsKeepKubeSchedulersCountAndOrder) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "40/1000", "0", 1);
  put("b", "n1", "40/1000", "0", 2);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a", "b"}, 1)}),
              ElementsAre("n1: a b (1)"));
}

TEST_F(PreemptTest, VictimsAreOrderedByImportance) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "20/1000", "0", 1, "2024-01-03T00:00:00Z");
  put("b", "n1", "20/1000", "0", 1, "2024-01-02T00:00:00Z");
  put("c", "n1", "20/1000", "0", 5);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a"})}),
              ElementsAre("n1: c b a (0)"));
}

TEST_F(PreemptTest, PrefersVictimsWithinTheirBudgetsAndCountsViolations) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n1", "50/1000", "1", 3);
  const PodText pod{.requests = {"100"}, .priority = 9};
  EXPECT_THAT(run_preempt(pod, {proposal("n1", {})}), ElementsAre("n1: a (0)"));
  budget_events.on_event(
      {kube::WatchEvent::Kind::kApply, budget_json("keep-a", R"({"matchLabels":{"app":"a"}})", 0)});
  EXPECT_THAT(run_preempt(pod, {proposal("n1", {})}), ElementsAre("n1: b (0)"));
  budget_events.on_event(
      {kube::WatchEvent::Kind::kApply, budget_json("keep-b", R"({"matchLabels":{"app":"b"}})", 0)});
  EXPECT_THAT(run_preempt(pod, {proposal("n1", {})}), ElementsAre("n1: a (1)"));
}

// The victim's card is kept for the preemptor, though 30 % would fit there once it is free.
TEST_F(PreemptTest, TheFreedCardIsKeptForTheNominatedPod) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "100/1000", "0");
  put("b", "n1", "50/1000", "1", 9);
  ASSERT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a"})}),
              ElementsAre("n1: a (0)"));
  ledger.remove_pod(PodUid("a"));
  ledger.reservations().nominate(PodUid("uid-p"), NodeName("n1"));
  const auto fits = [this](const PodText& pod) {
    return !filter(test::args_of(pod, {"n1"}), context, at_ms(0)).fitting.empty();
  };
  EXPECT_FALSE(fits({.name = "too-large", .requests = {"60/1000"}, .priority = 9}));
  EXPECT_TRUE(fits({.name = "more-important", .requests = {"60/1000"}, .priority = 10}));
  EXPECT_TRUE(fits({.requests = {"100"}, .priority = 9})) << "the preemptor itself";
  EXPECT_TRUE(fits({.name = "small", .requests = {"30/1000"}, .priority = 9}));
  EXPECT_EQ(assume_text(ledger, "small", "n1", "30/1000"), "1") << "the other card";
  EXPECT_EQ(assume_text(ledger, "uid-p", "n1", "whole"), "0");
}

TEST_F(PreemptTest, APodDoesNotPreemptForCardsThatAreKeptForAnother) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "100/1000", "0");
  const PodText first{.name = "first", .requests = {"100"}, .priority = 5};
  ASSERT_THAT(run_preempt(first, {proposal("n1", {"a"})}), ElementsAre("n1: a (0)"));
  ledger.reservations().nominate(PodUid("uid-first"), NodeName("n1"));
  const PodText second{.name = "second", .requests = {"100"}, .priority = 5};
  EXPECT_THAT(run_preempt(second, {proposal("n1", {"a"})}), IsEmpty());
  const PodText higher{.name = "higher", .requests = {"100"}, .priority = 6};
  EXPECT_THAT(run_preempt(higher, {proposal("n1", {"a"})}), ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, UnknownNodesAndNodesWhereNoEvictionHelpsAreLeftOut) {
  add_node(ledger, "n1: 0[100/8000]");
  add_node(ledger, "small: 0[100/500]");
  put("a", "n1", "50/1000", "0");
  put("b", "small", "50/300", "0");
  EXPECT_THAT(
      run_preempt({.requests = {"60/1000"}, .priority = 9},
                  {proposal("ghost", {"x"}), proposal("n1", {"a"}), proposal("small", {"b"})}),
      ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, TheProposalOfANonGpuPodIsReturned) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "50/1000", "0");
  EXPECT_THAT(
      run_preempt({.requests = {""}}, {proposal("ghost", {"x", "y"}, 4), proposal("n1", {"a"})}),
      ElementsAre("ghost: x y (4)", "n1: a (0)"));
}

TEST_F(PreemptTest, AnInvalidPodEvictsNoPods) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "50/1000", "0");
  EXPECT_THAT(run_preempt({.requests = {"30"}, .priority = 9}, {proposal("n1", {"a"})}), IsEmpty());
}

// Two nodes of two cards, of each of which one pod has 60 %.
struct FragmentedTest : PreemptTest {
  FragmentedTest() {
    for (const char* node : {"n1", "n2"}) {
      const std::string name = node;
      add_whole_node(name + ": 0[100/8000] 1[100/8000]");
      put(name + "a", node, "60/1000", "0", 2);
      put(name + "b", node, "60/1000", "1", 3);
    }
  }
  const std::vector<std::string> both{"n1", "n2"};
  PodText pod{.requests = {"70/1000"}, .priority = 9};
};

TEST_F(FragmentedTest, TheCheapestVictimOfAllNodesIsEvicted) {
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a");
  put("n2b", "n2", "60/1000", "1", 1);
  EXPECT_EQ(run_by_card(pod, both), "n2: d/n2b") << "the lowest of the highest priorities";
  put("n1a", "n1", "60/1000", "0", 1, "2024-06-01T00:00:00Z");
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a") << "of equal ones the last to have started";
  budget_events.on_event(
      {kube::WatchEvent::Kind::kApply, budget_json("keep", R"({"matchLabels":{"app":"n1a"}})", 0)});
  EXPECT_EQ(run_by_card(pod, both), "n2: d/n2b") << "no budget is violated there";
  EXPECT_EQ(run_by_card(pod, {"n1"}), "n1: d/n1b") << "nodes that filter refused alone";
}

TEST_F(FragmentedTest, FewerVictimsAreCheaper) {
  pod.requests = {"70/1000", "70/1000"};
  EXPECT_EQ(run_by_card(pod, {"n1"}), "n1: d/n1b d/n1a") << "the most important first";
  add_whole_node("n2: 0[100/8000] 1[100/8000] 2[100/8000]");
  put("n2c", "n2", "20/1000", "2", 3);
  EXPECT_EQ(run_by_card(pod, both), "n2: d/n2a");
}

TEST_F(FragmentedTest, TheCardsAreReservedForThePreemptor) {
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a");
  ledger.remove_pod(PodUid("n1a"));
  EXPECT_EQ(assume_text(ledger, "late", "n1", "45/1000"), sentence(Reason::kNominated));
  ledger.reservations().nominate(PodUid("uid-p"), NodeName("n1"));
  ledger.reader().read(at_ms(60'000), [](const View&) {});
  EXPECT_EQ(ledger.reader().counts().nominated, 1U) << "as long as it is nominated";
  ledger.reservations().nominate(PodUid("uid-p"), NodeName());
  EXPECT_EQ(assume_text(ledger, "late", "n1", "45/1000"), "0");
}

TEST_F(FragmentedTest, TheReservationEndsWhereNobodyNominatesThePod) {
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a");
  const std::uint64_t before = ledger.reader().releases(at_ms(0));
  ledger.reader().read(at_ms(static_cast<int>(kNominationSeen.count())), [](const View&) {});
  EXPECT_EQ(ledger.reader().counts().nominated, 0U);
  EXPECT_EQ(ledger.reader().releases(), before + 1) << "the pod is tried again";
}

TEST_F(FragmentedTest, SomePodsAreSpared) {
  EXPECT_EQ(run_by_card(pod, both, {{PodUid("n1a")}, {}}), "n2: d/n2a");
  pod.priority = 2'000'000'000;
  put("n2a", "n2", "60/1000", "0", 1'000'000'001);
  EXPECT_EQ(run_by_card(pod, {"n2"}, {{PodUid("n2b")}, {}}), "nobody") << "not those of the system";
}

TEST_F(FragmentedTest, PodsOfSomeGroupsAreSpared) {
  Claim claim = bound_claim("n1a", "n1", "60/1000", "0");
  claim.pod.name_space = "d";
  claim.group = claim.pod.name_space + "/train";
  claim.in_pod_group = true;
  ledger.apply_pod(claim);
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a") << "the lowest priority";
  EXPECT_EQ(run_by_card(pod, both, {{}, {{"d/train", true}}}), "n2: d/n2a");
  EXPECT_EQ(run_by_card(pod, both, {{}, {{"e/train", true}}}), "n1: d/n1a");
  EXPECT_EQ(run_by_card(pod, both, {{}, {{"d/train", false}}, true}), "n1: d/n1a");
  EXPECT_EQ(run_by_card(pod, both, {{}, {}, true}), "n2: d/n2a") << "has no group";
}

TEST_F(FragmentedTest, NobodyIsEvictedForAPodThatFits) {
  add_whole_node("n3: 0[100/8000]");
  EXPECT_EQ(run_by_card(pod, {"n1", "n2", "n3"}), "nobody");
}

TEST_F(FragmentedTest, NobodyIsEvictedWhereAPodThatIsTerminatingFreesTheCard) {
  Claim claim = bound_claim("n2b", "n2", "60/1000", "1");
  claim.priority = 100;
  claim.terminating = true;
  ledger.apply_pod(claim);
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a") << "it may hold its card for ever";
  pod.requests = {"70/1000", "70/1000"};
  EXPECT_EQ(run_by_card(pod, {"n2"}), "nobody") << "and is no victim";
  pod.requests = {"70/1000"};
  ledger.reservations().offer_nomination({PodUid("uid-p")}, {}, NodeName(), at_ms(0));
  claim.ends_soon = true;
  ledger.apply_pod(claim);
  EXPECT_EQ(run_by_card(pod, both), "nobody");
  // It does not free both.
  pod.requests = {"70/1000", "70/1000"};
  EXPECT_EQ(run_by_card(pod, {"n2"}), "n2: d/n2a");
}

TEST_F(FragmentedTest, NobodyIsEvictedForPodsThatMayNot) {
  pod.spec = R"("preemptionPolicy":"Never",)";
  EXPECT_EQ(run_by_card(pod, both), "nobody");
  pod.spec = R"("preemptionPolicy":"PreemptLowerPriority",)";
  EXPECT_EQ(run_by_card(pod, both), "n1: d/n1a");
  pod.spec = R"("affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":)"
             R"([{"topologyKey":"kubernetes.io/hostname"}]}},)";
  EXPECT_EQ(run_by_card(pod, both), "nobody") << "a victim may be what it has to be near to";
  pod.spec = {};
  pod.priority = 2;
  EXPECT_EQ(run_by_card(pod, both), "nobody") << "all are as important";
  pod.priority = 9;
  pod.requests = {"70"};
  EXPECT_EQ(run_by_card(pod, both), "nobody") << "the request is invalid";
  pod.requests = {""};
  EXPECT_EQ(run_by_card(pod, both), "nobody");
}

struct GroupTest : FragmentedTest {
  // A pod of the group "g".
  static PodText member(const char* name, const char* request, int priority = 9) {
    return {.name = name,
            .requests = {request},
            .priority = priority,
            .spec = R"("schedulingGroup":{"podGroupName":"g"},)"};
  }
  const PodText x = member("x", "70/1000");
  const PodText y = member("y", "70/1000");
  const PodText small = member("small", "30/1000");
};

TEST_F(GroupTest, VictimsAreChosenForAllPodsTogether) {
  EXPECT_EQ(run_together({x, y}, both), "x on n1; y on n2; evicts d/n1a d/n2a");
}

TEST_F(GroupTest, APodThatFitsEvictsNobody) {
  EXPECT_EQ(run_together({small, x}, both), "x on n1; small on n1; evicts d/n1a");
  EXPECT_EQ(run_together({small, member("another", "30/1000")}, both), "nobody");
}

TEST_F(GroupTest, NobodyIsEvictedWhereTheGroupDoesNotFitAsAWhole) {
  const std::vector<PodText> five{x, y, member("v", "70/1000"), member("w", "70/1000"),
                                  member("z", "70/1000")};
  EXPECT_EQ(run_together(five, both), "nobody");
  EXPECT_EQ(ledger.reader().counts().nominated, 0U);
  EXPECT_NE(run_together({five.begin(), five.end() - 1}, both), "nobody");
  EXPECT_EQ(ledger.reader().counts().nominated, 4U);
}

TEST_F(GroupTest, OnePodThatMayNotPreemptKeepsTheOthersFromIt) {
  PodText polite = y;
  polite.spec += R"("preemptionPolicy":"Never",)";
  EXPECT_EQ(run_together({x, polite}, both), "nobody");
  EXPECT_EQ(run_together({x, member("low", "70/1000", 2)}, both), "nobody");
  PodText spread = y;
  spread.spec += R"("topologySpreadConstraints":[{"whenUnsatisfiable":"DoNotSchedule"}],)";
  EXPECT_EQ(run_together({x, spread}, both), "nobody") << "it may not fit beside x";
}

// filter has answered x for the first card of n1. That is no use to a group that does not fit.
TEST_F(GroupTest, WhatFilterAnsweredAMemberIsFreeToItsGroup) {
  ledger.remove_pod(PodUid("n1a"));
  ASSERT_FALSE(filter(test::args_of(x, {"n1"}), context, at_ms(0)).fitting.empty());
  ASSERT_TRUE(filter(test::args_of(y, {"n1"}), context, at_ms(0)).fitting.empty());
  EXPECT_EQ(run_together({x, y}, {"n1"}), "x on n1; y on n1; evicts d/n1b");
}

// kube-scheduler does not ask about the node of x for y, where its sums do not suffice for both.
TEST_F(GroupTest, TheNodesThatFilterAnsweredForOthersCount) {
  ledger.remove_pod(PodUid("n1a"));
  ASSERT_FALSE(filter(test::args_of(x, {"n1"}), context, at_ms(0)).fitting.empty());
  EXPECT_EQ(run_together({x, y}, {"n2"}), "x on n1; y on n2; evicts d/n2a");
}

// kube-scheduler asks filter about a group as if no pod of lower priority were there.
TEST_F(GroupTest, TheVictimsFreeCPUToo) {
  Claim claim = bound_claim("n1c", "n1", "10/1000", "0");
  claim.pod.name_space = "d";
  claim.resources.cpu = MilliCpu(30'000);
  ledger.apply_pod(claim);
  PodText cpu = x;
  cpu.spec += R"("overhead":{"cpu":"8"},)";
  EXPECT_EQ(run_together({cpu}, {"n1"}), "x on n1; evicts d/n1a d/n1c");
  claim.priority = 10;
  ledger.apply_pod(claim);
  EXPECT_EQ(run_together({cpu}, {"n1"}), "nobody");
}

TEST_F(GroupTest, TheCardsAreReservedForEachPod) {
  ASSERT_EQ(run_together({x, y}, both), "x on n1; y on n2; evicts d/n1a d/n2a");
  for (const char* uid : {"n1a", "n2a"}) ledger.remove_pod(PodUid(uid));
  for (const char* node : {"n1", "n2"})
    EXPECT_EQ(assume_text(ledger, "late", node, "45/1000"), sentence(Reason::kNominated));
  ledger.reservations().nominate(PodUid("uid-x"), NodeName("n1"));
  ledger.reservations().nominate(PodUid("uid-y"), NodeName("n2"));
  ledger.reader().read(at_ms(60'000), [](const View&) {});
  EXPECT_EQ(ledger.reader().counts().nominated, 2U);
}

}  // namespace
}  // namespace mgpu::extender
