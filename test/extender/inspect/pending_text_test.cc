// What the Event of a pending pod says.
#include "extender/inspect/pending_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/limits.h"
#include "extender/inspect/limits.h"
#include "extender/placement/limits.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;

class PendingText : public testing::Test {
 protected:
  PendingText() {
    options.contract = *Contract::for_domain(kDefaultResourceDomain);
    options.policy = *find_policy("binpack");
    pod.metadata = {.name = "q", .name_space = "default", .uid = "q"};
  }
  void node(const char* text) { ledger.apply_node(test::facts_of(text)); }
  void tainted(const char* text) {
    NodeFacts facts = test::facts_of(text);
    facts.gates.taints.push_back(
        {.key = "k", .value = "", .effect = "NoSchedule", .time_added = ""});
    ledger.apply_node(std::move(facts));
  }
  void bind(const char* name, const char* on, const char* request, const char* cards,
            const char* name_space = "default") {
    Claim claim = test::bound_claim(name, on, request, cards);
    claim.pod.name_space = name_space;
    ledger.apply_pod(claim);
  }
  void container(const std::string& name, const std::string& core, const std::string& memory = "") {
    kube::Container one;
    one.name = name;
    one.limits["vke.volcengine.com/mgpu-core"] = core;
    if (!memory.empty()) one.limits["vke.volcengine.com/mgpu-memory"] = memory;
    pod.containers.push_back(std::move(one));
  }
  void annotate(const std::string& key, const std::string& value) {
    pod.metadata.annotations["vke.volcengine.com/" + key] = value;
  }
  Json explained(std::size_t group_pods = 0) const {
    return explanation_of(context, pod, {.after = "", .limit = 1},
                          {kExplainStepsMax, 1, [] { return true; }}, group_pods);
  }
  std::string text() const { return pending_text(explained()); }

  kube::Pod pod;
  Ledger ledger;
  VerbOptions options;
  DisruptionBudgets budgets;
  CurrentPrices prices;
  const VerbContext context{options, ledger, budgets, prices};
};

TEST_F(PendingText, SaysWhatIsNeededWhatThereIsAndWhatWouldHelp) {
  node("n1: 0[100/8000]");
  bind("a", "n1", "60/2000", "0");
  container("c0", "60", "4000");
  EXPECT_EQ(
      text(),
      "container c0 needs a card with mgpu-core 60 and mgpu-memory 4000 free; the nearest card "
      "has mgpu-core 40 and mgpu-memory 6000 free. It fits on n1 with mgpu-core 40 instead of "
      "60 for container c0, or on n1 when pod a terminates");
  EXPECT_FALSE(cards_fit(explained()));
}

TEST_F(PendingText, SaysHowManyPodsOfAGroupFit) {
  node("n1: 0[100/8000] 1[100/8000]");
  bind("a", "n1", "50/1000", "0");
  bind("b", "n1", "60/1000", "1");
  container("c0", "45", "1000");
  pod.metadata.labels["scheduling.x-k8s.io/pod-group"] = "g";
  const Json two = explained(2);
  EXPECT_EQ(pending_text(two),
            "its group default/g has 2 pods pending, and there are cards for 1 pod like this one. "
            "For one more, container c0 needs a card with mgpu-core 45 and mgpu-memory 1000 free; "
            "the nearest card has mgpu-core 40 and mgpu-memory 7000 free. One more fits on n1 with "
            "mgpu-core 40 instead of 45 for container c0, or on n1 when pod a terminates");
  EXPECT_FALSE(cards_fit(two));
  EXPECT_TRUE(cards_fit(explained(1)));
  node("n2: 0[100/8000]");
  EXPECT_TRUE(cards_fit(explained(2)));
  EXPECT_FALSE(explained(2)["group"].contains("pending"));
}

TEST_F(PendingText, NamesNoPodsOfOtherNamespaces) {
  node("n1: 0[100/8000]");
  bind("a", "n1", "40/2000", "0");
  bind("secret-1", "n1", "30/2000", "0", "other");
  bind("secret-2", "n1", "30/2000", "0", "third");
  container("c0", "100");
  EXPECT_THAT(text(), HasSubstr("on n1 when pod a and 2 pods of other namespaces terminate"));
  EXPECT_EQ(text().find("secret"), std::string::npos);
  EXPECT_THAT(text(), HasSubstr("needs a whole card; no such card is free"));
  ledger.remove_pod(PodUid("a"));
  ledger.remove_pod(PodUid("secret-1"));
  EXPECT_THAT(text(), HasSubstr("on n1 when 1 pod of other namespaces terminates"));
}

TEST_F(PendingText, NamesAllPodsToThoseWhoMayInspect) {
  node("n1: 0[100/8000]");
  bind("a", "n1", "40/2000", "0");
  bind("b", "n1", "60/2000", "0", "other");
  container("c0", "100");
  const PendingAnswer answer = pending_answer(explained(), true);
  EXPECT_EQ(answer.why, "container c0 needs a whole card; no such card is free");
  EXPECT_EQ(answer.help, "It fits on n1 when default/a and other/b terminate");
  EXPECT_THAT(answer.ways, testing::ElementsAre("on n1 when default/a and other/b terminate"));
}

TEST_F(PendingText, CountsPodsOfItsOwnNamespaceThatAreMany) {
  node("n1: 0[100/8000]");
  for (const char* name : {"a", "b", "c", "d", "e"}) bind(name, "n1", "20/1000", "0");
  container("c0", "100");
  EXPECT_THAT(text(), HasSubstr("when pod a and pod b and pod c and 2 more pods terminate"));
}

TEST_F(PendingText, CountsCardsForThatOfSeveral) {
  node("n1: 0[100/8000] 1[100/8000] 2[100/8000]");
  bind("a", "n1", "60/2000", "0");
  bind("b", "n1", "60/2000", "1");
  container("c0", "120", "8000");
  annotate("container-multiple-gpu", "2");
  EXPECT_EQ(text(),
            "container c0 needs 2 cards of one node with mgpu-core 60 and mgpu-memory 4000 free on "
            "each; no node has more than 1. It fits on n1 with mgpu-core 80 instead of 120 for "
            "container c0, or on n1 when pod a terminates");
}

TEST_F(PendingText, NamesTheLargestCardWhereNoneIsLargeEnough) {
  node("n1: 0[100/8000] 1[100/4000]");
  container("c0", "10", "9000");
  EXPECT_THAT(text(), HasSubstr("needs a card with mgpu-core 10 and mgpu-memory 9000 free; the "
                                "largest card has mgpu-core 100 and mgpu-memory 8000. "));
}

TEST_F(PendingText, NamesTheModelsThatThereAre) {
  node("n1: 0[100/8000 model=T4]");
  container("c0", "10", "1000");
  annotate("gpu-model", "H100");
  EXPECT_EQ(text(),
            "container c0 needs a card with mgpu-core 10 and mgpu-memory 1000 free; no card "
            "matches. 1 node(s) had no card of the requested model or UUID. annotation "
            "vke.volcengine.com/gpu-model names \"H100\", and no card of the cluster has such a "
            "name; their models are T4");
}

TEST_F(PendingText, SaysThatNoCardIsUsable) {
  node("n1: 0[100/8000 unhealthy]");
  container("c0", "10", "1000");
  EXPECT_THAT(text(), HasSubstr("; no card that matches is usable. 1 node(s) had too few healthy"));
}

TEST_F(PendingText, SaysThatThereAreNoNodes) {
  container("c0", "60", "1000");
  EXPECT_EQ(text(), "the extender has no nodes");
}

TEST_F(PendingText, SaysThatContainersDoNotFitTogether) {
  node("n1: 0[100/8000]");
  container("c0", "60", "1000");
  container("c1", "60", "1000");
  EXPECT_EQ(text(), "1 node(s) had no room for all containers together, even with empty cards");
}

TEST_F(PendingText, ProposesNothingOnNodesThatKeepThePodOut) {
  tainted("n1: 0[100/8000]");
  container("c0", "60", "4000");
  EXPECT_FALSE(cards_fit(explained()));
  EXPECT_EQ(text(), "1 node(s) had untolerated taint(s)");
  tainted("n2: 0[100/80000]");
  node("n3: 0[100/6000]");
  bind("a", "n2", "60/2000", "0");
  bind("b", "n3", "60/2000", "0");
  EXPECT_EQ(text(),
            "container c0 needs a card with mgpu-core 60 and mgpu-memory 4000 free; the nearest "
            "card has mgpu-core 40 and mgpu-memory 4000 free. 2 node(s) had untolerated taint(s). "
            "It fits on n3 with mgpu-core 40 instead of 60 for container c0, or on n3 when pod b "
            "terminates");
  pod.node_rules.tolerations.push_back({.key = "", .op = "Exists", .value = "", .effect = ""});
  EXPECT_TRUE(cards_fit(explained()));
}

TEST_F(PendingText, SaysWhichRulesOfThePodWereNotConsidered) {
  node("n1: 0[100/8000]");
  container("c0", "60", "9000");
  pod.constrained = true;
  pod.containers[0].host_port = true;
  for (std::size_t i = 0; i <= kNodeRuleTextsMax; ++i)
    pod.node_rules.selector[std::to_string(i)] = "";
  EXPECT_THAT(text(), testing::EndsWith(
                          "of the pod, its node selector, affinity and tolerations, which are too "
                          "long, and its rules about other pods, shared volumes and resource "
                          "claims, and its host ports were not considered"));
}

TEST_F(PendingText, SaysThatTheRequestIsInvalid) {
  container("c0", "50");
  EXPECT_EQ(text(),
            "invalid request: container \"c0\" asks for mgpu-core 50 and no mgpu-memory; add "
            "mgpu-memory in MiB, or ask for a whole card (mgpu-core 100)");
}

TEST_F(PendingText, SaysThatCardsAreFree) {
  node("n1: 0[100/8000]");
  container("c0", "50", "1000");
  EXPECT_EQ(
      text(),
      "the cards that the pod needs are free on 1 node; the Event of kube-scheduler says what "
      "else is missing there");
  EXPECT_TRUE(cards_fit(explained()));
}

TEST_F(PendingText, IsNotLongerThanAnEvent) {
  node("n1: 0[100/8000 model=T4]");
  container("c0", "10", "1000");
  std::string models;
  for (int i = 0; i < 60; ++i)
    models += (i == 0 ? "" : ",") + std::string(80, 'm') + std::to_string(i);
  annotate("gpu-model", models);
  EXPECT_EQ(text().size(), kube::kEventMessageMax);
}

}  // namespace
}  // namespace mgpu::extender
