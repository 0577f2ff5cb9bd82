// What an explanation proposes for a pod that fits on no node, and what it says of a bound one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/kube/objects/object_json.h"
#include "extender/inspect/limits.h"
#include "extender/inspect/views.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using Parsed = nlohmann::json;

const ExplainBounds kAmple{kExplainStepsMax, kExplainRowsMax, [] { return true; }};

kube::Pod pod_of(const std::string& name, int core, int memory, const std::string& node = "") {
  kube::Pod pod;
  pod.metadata.name = name;
  pod.metadata.name_space = "default";
  pod.metadata.uid = name;
  pod.node_name = node;
  kube::Container container;
  container.name = "c0";
  container.limits["vke.volcengine.com/mgpu-core"] = std::to_string(core);
  if (memory > 0) container.limits["vke.volcengine.com/mgpu-memory"] = std::to_string(memory);
  pod.containers.push_back(std::move(container));
  return pod;
}

class NearestView : public testing::Test {
 protected:
  NearestView() {
    options.contract = *Contract::for_domain(kDefaultResourceDomain);
    options.policy = *find_policy("binpack");
  }
  void node(const char* text) { ledger.apply_node(test::facts_of(text)); }
  void cordoned(const char* text) {
    NodeFacts facts = test::facts_of(text);
    facts.gates.cordoned = true;
    ledger.apply_node(std::move(facts));
  }
  void bind(const char* pod, const char* node, const char* request, const char* cards) {
    ledger.apply_pod(test::bound_claim(pod, node, request, cards));
  }
  Parsed explain(const kube::Pod& pod, const ExplainBounds& bounds = kAmple) {
    const auto answer = explain_view(context, pod, {.after = "", .limit = 100}, bounds);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Parsed::parse(answer.body);
  }
  http::Response simulate(const kube::Pod& pod, const std::string& query,
                          const ExplainBounds& bounds = kAmple) {
    const auto read = read_simulate_query(query);
    if (!read) return http::error_response(400, read.error().message);
    return simulate_view(context, pod, *read, bounds);
  }
  Parsed simulated(const kube::Pod& pod, const std::string& query) {
    const auto answer = simulate(pod, query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Parsed::parse(answer.body);
  }
  static std::vector<std::string> nodes_of(const Parsed& placements) {
    std::vector<std::string> names;
    for (const Parsed& placement : placements) names.push_back(placement["node"]);
    return names;
  }

  Ledger ledger;
  VerbOptions options;
  DisruptionBudgets budgets;
  CurrentPrices prices;
  const VerbContext context{options, ledger, budgets, prices};
};

TEST_F(NearestView, NamesTheNodeThatLacksTheLeastFirst) {
  node("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  bind("a", "n1", "30/6000", "0");
  bind("b", "n2", "30/3000", "0");
  const Parsed explained = explain(pod_of("q", 50, 6'000));
  EXPECT_EQ(explained["smallerRequests"], Parsed::parse(R"([
    {"node": "n2", "container": "c0", "core": 0, "memoryMiB": 1000},
    {"node": "n1", "container": "c0", "core": 0, "memoryMiB": 4000}])"));
}

TEST_F(NearestView, NamesARequestForCardsOfOthers) {
  kube::Pod pod = pod_of("q", 0, 0);
  EXPECT_EQ(explain(pod)["message"], "the pod requests no cards");
  pod.containers[0].limits["nvidia.com/gpu"] = "1";
  EXPECT_EQ(explain(pod)["message"],
            "the pod asks for nvidia.com/gpu, which mgpu does not give; it gives "
            "vke.volcengine.com/mgpu-core and vke.volcengine.com/mgpu-memory, and kubectl mgpu "
            "convert rewrites manifests of other projects");
  for (const char* name : {"tencent.com/vcuda-core", "nvidia.com/mig-1g.10gb",
                           "vke.volcengine.io/mgpu-core", "vke.volcengine.com/mgpu-cores"}) {
    pod.containers[0].limits = {{name, "1"}};
    EXPECT_THAT(explain(pod)["message"].get<std::string>(),
                testing::StartsWith(std::string("the pod asks for ") + name + ", which mgpu"));
  }
}

TEST_F(NearestView, SaysTheMostThatThereIs) {
  node("n1: 0[100/8000] 1[100/8000]");
  node("n2: 0[100/16000 unhealthy]");
  bind("a", "n1", "60/2000", "0");
  bind("b", "n1", "80/2000", "1");
  EXPECT_EQ(explain(pod_of("q", 50, 6'000))["room"], Parsed::parse(R"([
    {"container": "c0", "cards": 0, "free": {"core": 40, "memoryMiB": 6000},
     "largest": {"core": 100, "memoryMiB": 16000}}])"));
}

TEST_F(NearestView, NamesTheFewestPodsThatWouldHaveToEnd) {
  node("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  for (const char* pod : {"a", "b", "c"}) bind(pod, "n1", "30/1000", "0");
  bind("d", "n2", "80/1000", "0");
  bind("e", "n2", "10/1000", "0");
  const Parsed releases = explain(pod_of("q", 50, 1'000))["releases"];
  ASSERT_EQ(releases.size(), 2U);
  EXPECT_EQ(releases[0], Parsed::parse(R"({"node": "n2", "pods": [
    {"namespace": "default", "name": "d"}]})"));
  EXPECT_EQ(releases[1]["node"], "n1");
  EXPECT_EQ(releases[1]["pods"].size(), 2U);
}

TEST_F(NearestView, NamesTheCardsThatWouldHaveToBeUncordoned) {
  node("n1: 0[100/8000] 1[100/8000 cordoned] 2[100/16000 cordoned]");
  node("n2: 0[100/8000] 1[100/8000 unhealthy cordoned]");
  bind("a", "n1", "60/2000", "0");
  bind("b", "n2", "60/2000", "0");
  const Parsed one = explain(pod_of("q", 50, 12'000));
  EXPECT_EQ(one["uncordons"], Parsed::parse(R"([{"node": "n1", "cards": [2]}])"));
  EXPECT_THAT(one["pending"]["help"].get<std::string>(),
              testing::HasSubstr("on n1 once its card 2 is uncordoned"));
  const Parsed both = explain(pod_of("q", 200, 16'000));
  EXPECT_EQ(both["uncordons"], Parsed::parse(R"([{"node": "n1", "cards": [1, 2]}])"));
  EXPECT_THAT(both["pending"]["ways"].dump(),
              testing::HasSubstr("on n1 once its cards 1,2 are uncordoned"));
  EXPECT_EQ(explain(pod_of("q", 50, 20'000))["uncordons"], Parsed::array());
}

TEST_F(NearestView, ProposesNothingThatDoesNotHelp) {
  node("n1: 0[100/8000 unhealthy]");
  node("n2: 0[100/4000]");
  const Parsed explained = explain(pod_of("q", 50, 6'000));
  EXPECT_EQ(explained["releases"], Parsed::array());
  EXPECT_EQ(explained["smallerRequests"].size(), 1U) << "the card of n2 is large enough for 4000";
}

// Only pods get a MIG device that name it: its room does not help others, nor does the end of its
// pods.
TEST_F(NearestView, DoesNotCountTheRoomOfMigDevices) {
  node("n1: 0[100/4000] 1[100/16000 model=A100-MIG-3g.20gb] 2[100/16000 model=A100-MIG-3g.20gb]");
  node("n2: 0[100/16000 model=A100-MIG-3g.20gb]");
  bind("a", "n1", "60/1000", "0");
  bind("b", "n2", "100/16000", "0");
  const kube::Pod pod = pod_of("q", 50, 3'500);
  const Parsed explained = explain(pod);
  EXPECT_EQ(explained["room"], Parsed::parse(R"([
    {"container": "c0", "cards": 0, "free": {"core": 40, "memoryMiB": 3000},
     "largest": {"core": 100, "memoryMiB": 4000}}])"));
  EXPECT_EQ(explained["smallerRequests"], Parsed::parse(R"([
    {"node": "n1", "container": "c0", "core": 10, "memoryMiB": 500}])"));
  ASSERT_EQ(explained["releases"].size(), 1U);
  EXPECT_EQ(explained["releases"][0]["pods"], Parsed::parse(R"([
    {"namespace": "default", "name": "a"}])"));
  EXPECT_THAT(explained["reasons"].dump(),
              testing::HasSubstr("node(s) had too few cards beside MIG devices"));
  const Parsed simulation = simulated(pod, "replicas=1");
  EXPECT_EQ(simulation["fitting"], 0) << simulation.dump();
  EXPECT_THAT(simulation["pending"].dump(), testing::HasSubstr("the nearest card has mgpu-core 40"))
      << simulation.dump();
}

TEST_F(NearestView, ProposesAFewOfManyNodes) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i);
    node((name + ": 0[100/8000]").c_str());
    bind(("p" + std::to_string(i)).c_str(), name.c_str(), "80/1000", "0");
  }
  const Parsed explained = explain(pod_of("q", 50, 1'000));
  EXPECT_EQ(explained["smallerRequests"].size(), kNearestMax);
  EXPECT_EQ(explained["releases"].size(), kNearestMax);
  EXPECT_EQ(explained["reasons"][0]["nodes"], 20);
}

// The steps of the proposals are not taken from those of the reasons.
TEST_F(NearestView, ReasonsDoNotDependOnTheProposals) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i);
    node((name + ": 0[100/8000]").c_str());
    bind(("p" + std::to_string(i)).c_str(), name.c_str(), "80/1000", "0");
  }
  const Parsed explained =
      explain(pod_of("q", 50, 1'000), {150'000, kExplainRowsMax, [] { return true; }});
  EXPECT_EQ(explained["reasons"][0]["nodes"], 20);
  EXPECT_FALSE(explained.contains("nodesNotExamined"));
  EXPECT_EQ(explained["releases"], Parsed::array());
}

TEST_F(NearestView, ABoundPodIsRankedAsIfItWereNotThere) {
  node("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  bind("q", "n1", "60/6000", "0");
  bind("a", "n2", "20/1000", "0");
  const Parsed explained = explain(pod_of("q", 60, 6'000, "n1"));
  EXPECT_EQ(explained["now"], Parsed::parse(R"({"nodesFitting": 2, "rank": 2, "best": "n2"})"))
      << "binpack prefers the node that has a pod";
  EXPECT_EQ(explained["nodesFitting"], 2);
  EXPECT_EQ(explained["nodes"][0]["fits"], true) << "its own share does not count";
  EXPECT_FALSE(explained.contains("releases"));
}

TEST_F(NearestView, ABoundPodWhoseNodeHasNoCardsNowHasNoRank) {
  node("n1: 0[100/8000 unhealthy]");
  node("n2: 0[100/8000]");
  bind("q", "n1", "60/6000", "0");
  EXPECT_EQ(explain(pod_of("q", 60, 6'000, "n1"))["now"], Parsed::parse(R"({"nodesFitting": 1})"));
}

// A pod of the same name that was created again holds nothing.
TEST_F(NearestView, AnEarlierPodOfThatNameCounts) {
  node("n1: 0[100/8000]");
  bind("q", "n1", "60/6000", "0");
  kube::Pod pod = pod_of("q", 60, 1'000);
  pod.metadata.uid = "another";
  const Parsed explained = explain(pod);
  EXPECT_EQ(explained["nodesFitting"], 0);
  EXPECT_EQ(explained["releases"].size(), 1U);
}

TEST_F(NearestView, SaysThatTheNodeHasTooLittleCpu) {
  NodeFacts facts = test::facts_of("n1: 0[100/8000]");
  facts.allocatable = {MilliCpu(500), MiB(1'000)};
  facts.pods_allowed = 110;
  ledger.apply_node(facts);
  kube::Pod pod = pod_of("q", 50, 1'000);
  EXPECT_FALSE(explain(pod)["nodes"][0].contains("cpuOrMemoryMissing"));
  pod.containers[0].requests["cpu"] = "2";
  EXPECT_EQ(explain(pod)["nodes"][0]["cpuOrMemoryMissing"], true);
}

TEST_F(NearestView, ANodeThatKeepsThePodOutHasNoPlacementAndNoRank) {
  cordoned("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  const Parsed explained = explain(pod_of("q", 50, 6'000));
  EXPECT_EQ(explained["nodesFitting"], 1);
  EXPECT_EQ(explained["reasons"], Parsed::parse(R"([{"reason": "node(s) were unschedulable",
      "nodes": 1, "evictionCanHelp": false, "keptOut": true}])"));
  const Parsed& first = explained["nodes"][0];
  EXPECT_EQ(first["fits"], false);
  EXPECT_EQ(first["reason"], "node(s) were unschedulable");
  EXPECT_FALSE(first.contains("placement"));
  EXPECT_TRUE(first["cards"][0]["fits"]);
  bind("q", "n1", "50/6000", "0");
  const Parsed bound = explain(pod_of("q", 50, 6'000, "n1"));
  EXPECT_EQ(bound["now"], Parsed::parse(R"({"nodesFitting": 1})"));
}

// --- simulate ------------------------------------------------------------------------------------

TEST_F(NearestView, SimulatePlacesReplicasByThePolicy) {
  node("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  const Parsed packed = simulated(pod_of("q", 50, 1'000), "replicas=3");
  EXPECT_THAT(nodes_of(packed["placements"]), ElementsAre("n1", "n1", "n2"));
  EXPECT_EQ(packed["policy"], "binpack/binpack");
  EXPECT_EQ(packed["placed"], 3);
  EXPECT_EQ(packed["fitting"], 4);
  EXPECT_EQ(packed["placements"][0]["containers"],
            Parsed::parse(R"([{"container": "c0", "cards": [0]}])"));
  const Parsed spread = simulated(pod_of("q", 50, 1'000), "replicas=3&policy=spread");
  EXPECT_THAT(nodes_of(spread["placements"]), ElementsAre("n1", "n2", "n1"));
}

TEST_F(NearestView, SimulateSaysWhyNoMoreFit) {
  node("n1: 0[100/8000]");
  node("n2: 0[100/8000 unhealthy]");
  const Parsed outcome = simulated(pod_of("q", 60, 1'000), "replicas=5");
  EXPECT_EQ(outcome["placed"], 1);
  EXPECT_EQ(outcome["reasons"], Parsed::parse(R"([
    {"reason": "node(s) had no single card with enough free mgpu-core", "nodes": 1},
    {"reason": "node(s) had too few healthy cards", "nodes": 1}])"));
  EXPECT_EQ(outcome["pending"]["ways"],
            Parsed::parse(R"(["on n1 with mgpu-core 40 instead of 60 for container c0"])"));
}

TEST_F(NearestView, SimulateChangesNothing) {
  node("n1: 0[100/8000]");
  simulated(pod_of("q", 50, 1'000), "replicas=2");
  EXPECT_EQ(test::used_text(ledger, "n1"), "0=0/0");
  EXPECT_EQ(test::expected_text(ledger, "n1"), "0=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0U);
}

TEST_F(NearestView, SimulateOfAnEmptyClusterPlacesNothing) {
  const Parsed outcome = simulated(pod_of("q", 50, 1'000), "");
  EXPECT_EQ(outcome["placed"], 0);
  EXPECT_EQ(outcome["reasons"], Parsed::array());
}

TEST_F(NearestView, SimulateEndsAtItsBounds) {
  node("n1: 0[100/8000]");
  const auto answer = simulate(pod_of("q", 50, 1'000), "",
                               {kExplainStepsMax, kExplainRowsMax, [] { return false; }});
  const Parsed outcome = Parsed::parse(answer.body);
  EXPECT_EQ(outcome["placed"], 0);
  EXPECT_TRUE(outcome.contains("message"));
}

TEST_F(NearestView, SimulateRefusesWhatItCannotRead) {
  const std::pair<std::string, std::string> queries[] = {
      {"replicas=0", "query parameter replicas is \\\"0\\\", expected a number from 1 to 1000"},
      {"replicas=1001", "expected a number from 1 to 1000"},
      {"replicas=x", "expected a number from 1 to 1000"},
      {"policy=best", "query parameter policy: "}};
  for (const auto& [query, sentence] : queries) {
    const auto answer = simulate(pod_of("q", 50, 1'000), query);
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_THAT(answer.body, testing::HasSubstr(sentence)) << query;
  }
  EXPECT_THAT(simulate(pod_of("q", 50, 0), "").body, testing::HasSubstr("the Pod manifest: "));
  EXPECT_THAT(simulate(pod_of("q", 0, 0), "").body, testing::HasSubstr("requests no cards"));
}

TEST_F(NearestView, ASimulationPlacesNothingOnNodesThatKeepThePodOut) {
  cordoned("n1: 0[100/8000]");
  node("n2: 0[100/8000]");
  const Parsed outcome = simulated(pod_of("q", 50, 1'000), "replicas=5");
  EXPECT_EQ(nodes_of(outcome["placements"]), (std::vector<std::string>{"n2", "n2"}));
  EXPECT_EQ(outcome["reasons"][0]["reason"], "node(s) were unschedulable");
  EXPECT_EQ(outcome["reasons"].size(), 2);
  kube::Pod pod = pod_of("q", 50, 1'000);
  pod.constrained = true;
  EXPECT_TRUE(simulated(pod, "").contains("notConsidered"));
}

}  // namespace
}  // namespace mgpu::extender
