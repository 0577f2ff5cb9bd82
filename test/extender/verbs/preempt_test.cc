#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/ledger/disruption_budgets.h"
#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender {
namespace {

using mgpu::test::assume_text;
using mgpu::test::at_ms;
using mgpu::test::bound_claim;
using test::add_node;
using test::PodText;
using test::settings_of;
using testing::ElementsAre;
using testing::IsEmpty;

std::string budget_json(const std::string& name, const std::string& selector, int allowed) {
  return R"({"metadata":{"namespace":"d","name":")" + name + R"("},"spec":{"selector":)" +
         selector + R"(},"status":{"disruptionsAllowed":)" + std::to_string(allowed) + "}}";
}

struct PreemptTest : testing::Test {
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
    for (const auto& node : preempt({args->pod, nodes}, ledger, budgets, settings, at_ms(0))) {
      lines.push_back(node.node.str() + ":");
      for (const auto& victim : node.victims) lines.back() += " " + victim.str();
      lines.back() += " (" + std::to_string(node.pdb_violations) + ")";
    }
    return lines;
  }

  Ledger ledger;
  DisruptionBudgets budgets;
  kube::ObjectEvents<kube::PodDisruptionBudget> budget_events{budgets.consumer()};
  Settings settings = settings_of();
};

TEST_F(PreemptTest, EvictsPodsThatFreeACardNotOnlyTheSum) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n1", "50/1000", "1");
  put("c", "n1", "50/1000", "1");
  // The sums say that one of b and c is enough; a whole card needs all of card 0.
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"b"})}),
              ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, NeverEvictsEqualOrHigherPriority) {
  add_node(ledger, "n1: 0[100/8000]");
  put("a", "n1", "50/1000", "0", 9);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a"})}),
              IsEmpty());
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 10}, {proposal("n1", {"a"})}),
              ElementsAre("n1: a (0)"));
}

TEST_F(PreemptTest, NeverEvictsAssumedPods) {
  add_node(ledger, "n1: 0[100/8000]");
  ASSERT_EQ(assume_text(ledger, "a", "n1", "50/1000"), "0");
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"a"})}),
              IsEmpty());
}

TEST_F(PreemptTest, VictimsWithoutCardsStay) {
  add_node(ledger, "n1: 0[100/8000] 1[100/8000]");
  put("a", "n1", "50/1000", "0");
  put("b", "n1", "100/1000", "1", 5);
  EXPECT_THAT(run_preempt({.requests = {"100"}, .priority = 9}, {proposal("n1", {"cpu", "b"}, 3)}),
              ElementsAre("n1: a cpu (0)"));
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

}  // namespace
}  // namespace mgpu::extender
