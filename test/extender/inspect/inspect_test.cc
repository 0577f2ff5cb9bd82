#include "extender/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "extender/inspect/limits.h"
#include "extender/inspect/views.h"
#include "extender/ledger/limits.h"
#include "extender/placement/reason.h"
#include "test/support/faulty_api_server.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"
#include "test/support/price_snapshot_text.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;
using Parsed = nlohmann::json;

const std::string kCore = "vke.volcengine.com/mgpu-core";
const std::string kMemory = "vke.volcengine.com/mgpu-memory";

VerbOptions binpack() {
  VerbOptions options;
  options.contract = *Contract::for_domain(kDefaultResourceDomain);
  options.policy = *find_policy("binpack");
  return options;
}

class Inspect : public testing::Test {
 protected:
  Inspect() {
    ledger.apply_node(test::facts_of("n1: 0[100/1000 model=A10 uuid=GPU-1] 1[100/2000]"));
    ledger.apply_node(test::facts_of("n2: 0[100/1000 unhealthy]"));
    add_routes(*router, "/inspect", context, client, inspections);
  }

  // Nothing where the request has not been answered yet.
  std::optional<http::Response> send(http::Request request) {
    std::optional<http::Response> answer;
    router->route(std::move(request), [&](http::Response given) { answer = std::move(given); });
    executor.run_ready();
    inspections.run_ready();
    return answer;
  }
  http::Response get(const std::string& view, const std::string& query = "") {
    return send({.method = "GET", .path = "/inspect/" + view, .query = query}).value();
  }
  http::Response explain(const std::string& manifest, const std::string& query = "") {
    http::Request request = {.method = "POST", .path = "/inspect/explain", .query = query};
    request.body = manifest;
    return send(std::move(request)).value();
  }
  static Parsed read(const http::Response& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Parsed::parse(answer.body);
  }
  Parsed view(const std::string& name, const std::string& query = "") {
    return read(get(name, query));
  }
  void bind(const char* pod, const char* node, const char* request, const char* cards) {
    ledger.apply_pod(test::bound_claim(pod, node, request, cards));
  }
  void create(const std::string& pod) {
    kube::Request request;
    request.method = kube::Method::kPost;
    request.target = "/api/v1/namespaces/default/pods";
    request.body = pod;
    request.content_type = "application/json";
    EXPECT_EQ(api_server.call(request).status, 201);
  }

  test::ManualExecutor executor;
  test::ManualExecutor inspections;
  test::FaultyApiServer api_server{executor, {}};
  kube::Client client{api_server};
  Ledger ledger;
  VerbOptions options = binpack();
  DisruptionBudgets budgets;
  CurrentPrices current;
  const VerbContext context{options, ledger, budgets, current};
  std::optional<http::Router> router{std::in_place};
};

// --- cluster -------------------------------------------------------------------------------------

TEST_F(Inspect, ShowsEveryCardOfTheCluster) {
  bind("p", "n1", "30/300", "1");
  const Parsed cluster = view("cluster");
  EXPECT_EQ(cluster["nodes"].size(), 2U);
  EXPECT_EQ(cluster["nodes"][0]["name"], "n1");
  EXPECT_EQ(cluster["nodes"][0]["pods"], 1);
  EXPECT_EQ(cluster["nodes"][0]["cards"][0], Parsed::parse(R"({
    "index": 0, "uuid": "GPU-1", "model": "A10", "healthy": true, "uncertain": false,
    "cordoned": false,
    "core": {"capacity": 100, "used": 0, "free": 100, "expected": 0},
    "memoryMiB": {"capacity": 1000, "used": 0, "free": 1000, "expected": 0}, "pods": 0})"));
  EXPECT_EQ(cluster["nodes"][0]["cards"][1]["memoryMiB"]["free"], 1700);
  EXPECT_EQ(cluster["nodes"][0]["cards"][1]["pods"], 1);
  EXPECT_FALSE(cluster.contains("next"));
}

TEST_F(Inspect, ShowsTheLinksOfCards) {
  NodeFacts facts = test::facts_of("n3: 0[100/1000] 2[100/1000] 5[100/1000] 6[100/1000]");
  facts.links = CardLinks::parse("21p---", 4).value();
  facts.cards[2].numa = 1;
  ledger.apply_node(facts);
  bind("p", "n3", "wholex2 30/300", "0,2 | 5");
  const Parsed node = view("node", "name=n3");
  EXPECT_EQ(node["cards"][0]["links"],
            Parsed::parse(R"([{"link": "NV2", "cards": [2]}, {"link": "NV1", "cards": [5]}])"));
  EXPECT_EQ(node["cards"][1]["links"],
            Parsed::parse(R"([{"link": "NV2", "cards": [0]}, {"link": "PIX", "cards": [5]}])"));
  EXPECT_EQ(node["cards"][3]["links"], Parsed::array());
  EXPECT_EQ(node["cards"][2]["numa"], 1);
  EXPECT_FALSE(node["cards"][0].contains("numa"));
  EXPECT_EQ(node["pods"][0]["containers"][0]["link"], "NV2");
  EXPECT_FALSE(node["pods"][0]["containers"][1].contains("link"));
  EXPECT_EQ(view("pod", "namespace=default&name=p")["containers"][0]["link"], "NV2");
  // A node that does not publish them any more.
  facts.links = {};
  ledger.apply_node(facts);
  EXPECT_FALSE(view("node", "name=n3")["cards"][0].contains("links"));
  EXPECT_FALSE(view("pod", "namespace=default&name=p")["containers"][0].contains("link"));
}

TEST_F(Inspect, ShowsTheProfileOfANode) {
  NodeFacts facts = test::facts_of("n3: 0[100/1000] 1[100/1000]");
  facts.cards[0].core = Percent(200);
  facts.cards[1].health = "reserved by profile infer";
  facts.profile = {.name = "infer",
                   .problem = "isolation mps begins later",
                   .isolation = "none",
                   .policy = "spread",
                   .minimum = {Percent(10), MiB(500)}};
  ledger.apply_node(std::move(facts));
  const Parsed node = view("node", "name=n3");
  EXPECT_EQ(node["profile"], Parsed::parse(R"({
    "name": "infer", "problem": "isolation mps begins later", "isolation": "none",
    "policy": "spread", "minimum": {"core": 10, "memoryMiB": 500}})"));
  EXPECT_EQ(node["cards"][0]["core"]["capacity"], 200);
  EXPECT_FALSE(node["cards"][0].contains("reserved"));
  EXPECT_EQ(node["cards"][1]["reserved"], true);
  EXPECT_FALSE(view("node", "name=n1").contains("profile"));
}

TEST_F(Inspect, ShowsThatANodeStartsPartsOfOneCardOnly) {
  NodeFacts facts = test::facts_of("n3: 0[100/1000]");
  facts.profile.parts_of_one_card = true;
  ledger.apply_node(std::move(facts));
  EXPECT_EQ(view("node", "name=n3")["partsOfOneCard"], true);
  EXPECT_FALSE(view("node", "name=n3").contains("profile"));
  EXPECT_FALSE(view("node", "name=n1").contains("partsOfOneCard"));
}

TEST_F(Inspect, ShowsTheTotalsOfTheCluster) {
  bind("p", "n1", "30/300", "1");
  EXPECT_EQ(view("cluster")["totals"], Parsed::parse(R"({
    "nodes": 2, "cards": 3,
    "core": {"capacity": 300, "used": 30, "free": 170, "expected": 0},
    "memoryMiB": {"capacity": 4000, "used": 300, "free": 2700, "expected": 0},
    "podsBound": 1, "podsAssumed": 0, "podsDrifting": 0, "cardsOverfull": 0,
    "expectedPlacements": 0, "podsNominated": 0})"))
      << "nothing of the unhealthy card is free";
}

TEST_F(Inspect, ShowsPodsWhoseCardsAreNotKnown) {
  ledger.apply_pod(test::blocking_claim("by-hand", "n1"));
  const Parsed cluster = view("cluster");
  ASSERT_EQ(cluster["drift"].size(), 1U);
  EXPECT_EQ(cluster["drift"][0]["name"], "by-hand");
  EXPECT_EQ(cluster["drift"][0]["node"], "n1");
  EXPECT_NE(cluster["drift"][0]["drift"], "");
  EXPECT_EQ(cluster["nodes"][0]["cards"][0]["uncertain"], true);
  EXPECT_EQ(cluster["totals"]["podsDrifting"], 1);
}

TEST_F(Inspect, ShowsTheCardsWithMoreInUseThanTheirCapacity) {
  bind("a", "n1", "80/800", "0");
  EXPECT_FALSE(view("cluster")["nodes"][0]["cards"][0].contains("overfull"));
  bind("b", "n1", "80/800", "0");
  for (const Parsed& node : {view("cluster")["nodes"][0], view("node", "name=n1")}) {
    EXPECT_EQ(node["cards"][0]["overfull"], true);
    EXPECT_FALSE(node["cards"][1].contains("overfull"));
  }
}

TEST_F(Inspect, NamesAFewPodsOfAnOverfullCard) {
  for (const char* pod : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
    bind(pod, "n1", "20/80", "0");
  bind("elsewhere", "n1", "20/80", "1");
  ledger.apply_pod(test::drifting_claim("by-hand", "n1", "1/1"));
  EXPECT_EQ(view("node", "name=n1")["cards"][0]["overfullDetail"],
            "card 0 has more in use than its capacity: pods default/a, default/b, default/c, "
            "default/d, default/e, default/f, default/g, default/h and 2 more; delete those that "
            "were bound without mgpu-extender or before the cards of the node changed, else the "
            "one that was bound last");
}

TEST_F(Inspect, ShowsWhatIsWrongWithACard) {
  NodeFacts facts = test::facts_of("n2: 0[100/1000]");
  facts.cards[0].health = "XID 79";
  ledger.apply_node(facts);
  EXPECT_EQ(view("node", "name=n2")["cards"][0]["health"], "XID 79");
  EXPECT_FALSE(view("node", "name=n1")["cards"][0].contains("health"));
  const Parsed explained = read(explain(test::pod_json("q", {{kCore, "10"}, {kMemory, "500"}})));
  EXPECT_EQ(explained["nodes"][1]["cards"][0]["why"], "unhealthy: XID 79");
  facts.cards[0].health = "XID 95";
  facts.cards[0].since = "2026-01-02T03:04:05Z";
  ledger.apply_node(facts);
  EXPECT_EQ(view("node", "name=n2")["cards"][0]["health"], "XID 95 since 2026-01-02T03:04:05Z");
}

// It counts on each card, and is on one of them at most.
TEST_F(Inspect, APodWithoutAnnotationsMakesNoCardOverfull) {
  bind("a", "n1", "80/800", "0");
  ledger.apply_pod(test::drifting_claim("by-hand", "n1", "30/100"));
  const Parsed cluster = view("cluster");
  const Parsed card = cluster["nodes"][0]["cards"][0];
  EXPECT_EQ(card["core"]["used"], 110);
  EXPECT_FALSE(card.contains("overfull"));
  EXPECT_EQ(cluster["totals"]["cardsOverfull"], 0);
}

TEST_F(Inspect, ShowsAnEmptyCluster) {
  ledger.replace_nodes({});
  const Parsed cluster = view("cluster");
  EXPECT_EQ(cluster["nodes"], Parsed::array());
  EXPECT_EQ(cluster["drift"], Parsed::array());
}

TEST_F(Inspect, ShowsTheClusterInPages) {
  for (int i = 3; i <= 7; ++i) {
    ledger.apply_node(test::facts_of("n" + std::to_string(i) + ": 0[100/1000]"));
  }
  std::string seen;
  std::string query = "limit=3";
  for (int pages = 1;; ++pages) {
    const Parsed page = view("cluster", query);
    for (const Parsed& node : page["nodes"]) seen += node["name"].get<std::string>() + " ";
    EXPECT_EQ(page["totals"]["nodes"], 7) << "totals are of the whole cluster";
    if (!page.contains("next")) break;
    ASSERT_LT(pages, 4);
    query = "limit=3&after=" + page["next"].get<std::string>();
  }
  EXPECT_EQ(seen, "n1 n2 n3 n4 n5 n6 n7 ");
}

TEST_F(Inspect, RefusesAnInvalidLimit) {
  for (const char* limit : {"0", "-1", "x", "5001", "1.5", "99999999999999999999"}) {
    const auto answer = get("cluster", std::string("limit=") + limit);
    EXPECT_EQ(answer.status, 400) << limit;
    EXPECT_THAT(answer.body, HasSubstr("query parameter limit is")) << limit;
  }
}

// --- node and pod --------------------------------------------------------------------------------

TEST_F(Inspect, ShowsANodeWithItsPods) {
  bind("p", "n1", "init:10/100 30/300", "1 | 1");
  const Parsed node = view("node", "name=n1");
  EXPECT_EQ(node["cards"].size(), 2U);
  EXPECT_EQ(node["pods"], Parsed::parse(R"([{
    "namespace": "default", "name": "p", "uid": "p", "node": "n1", "phase": "bound",
    "priority": 0,
    "containers": [{"name": "c0", "kind": "init", "cards": [1]},
                   {"name": "c1", "kind": "app", "cards": [1]}],
    "holds": [{"card": 1, "core": 30, "memoryMiB": 300}]}])"));
}

TEST_F(Inspect, NamesTheModelsOfTheCardsThatAPodHolds) {
  ledger.apply_node(
      test::facts_of("n3: 0[100/1000 model=T4] 1[100/1000 model=A10] 2[100/1000 model=T4]"));
  bind("p", "n3", "50/500 30/300", "0,1,2 | 2");
  const Parsed containers = view("pod", "name=p")["containers"];
  EXPECT_EQ(containers[0]["model"], "A10, T4");
  EXPECT_EQ(containers[1]["model"], "T4");
  EXPECT_EQ(view("node", "name=n3")["pods"][0]["containers"], containers);
}

TEST_F(Inspect, ShowsTheProblemOfANode) {
  bind("p", "n1", "30/300", "1");
  ledger.remove_node(NodeName("n1"));
  EXPECT_NE(view("node", "name=n1")["problem"], "");
}

TEST_F(Inspect, ShowsWhatAPodHolds) {
  test::assume_id(ledger, "p", "n1", "30/300");
  const Parsed pod = view("pod", "name=p");
  EXPECT_EQ(pod["phase"], "assumed");
  EXPECT_EQ(pod["node"], "n1");
  EXPECT_EQ(pod["containers"][0]["cards"].size(), 1U);
}

TEST_F(Inspect, UnknownNodesAndPodsAreNotFound) {
  EXPECT_EQ(get("node", "name=n9").status, 404);
  EXPECT_EQ(get("node", "name=n9").body, "{\"error\": \"node \\\"n9\\\" is not known\"}\n");
  EXPECT_EQ(get("pod", "name=p").status, 404);
  EXPECT_EQ(get("pod", "namespace=other&name=p").body,
            "{\"error\": \"pod \\\"other/p\\\" holds no cards\"}\n");
}

TEST_F(Inspect, RequiresAName) {
  for (const char* view : {"node", "pod", "explain"}) {
    EXPECT_EQ(get(view).status, 400) << view;
    EXPECT_EQ(get(view).body, "{\"error\": \"query parameter name is missing\"}\n") << view;
  }
}

// --- explain -------------------------------------------------------------------------------------

TEST_F(Inspect, ExplainsAManifestCardByCard) {
  bind("p", "n1", "90/300", "0");
  const Parsed explained = read(explain(test::pod_json("q", {{kCore, "30"}, {kMemory, "500"}})));
  EXPECT_EQ(explained["namespace"], "default");
  EXPECT_EQ(explained["policy"], "binpack/binpack");
  EXPECT_EQ(explained["request"], Parsed::parse(R"({"containers": [
    {"name": "app", "kind": "app", "cards": 1, "core": 30, "memoryMiB": 500}]})"));
  EXPECT_EQ(explained["nodesFitting"], 1);
  const Parsed& n1 = explained["nodes"][0];
  EXPECT_EQ(n1["fits"], true);
  EXPECT_EQ(n1["placement"], Parsed::parse(R"([{"container": "app", "cards": [1]}])"));
  EXPECT_EQ(n1["cards"][0]["fits"], false);
  EXPECT_EQ(n1["cards"][0]["core"], Parsed::parse(R"({"asked": 30, "free": 10})"));
  EXPECT_EQ(n1["cards"][0]["why"], "mgpu-core: requests 30, 10 free");
  EXPECT_EQ(n1["cards"][1]["fits"], true);
  const Parsed& n2 = explained["nodes"][1];
  EXPECT_EQ(n2["fits"], false);
  EXPECT_EQ(n2["evictionCanHelp"], false);
  EXPECT_EQ(n2["reason"], explained["reasons"][0]["reason"]);
}

TEST_F(Inspect, CountsTheReasonsOfAllNodesOnEveryPage) {
  const Parsed explained = read(explain(test::pod_json("q", {{kCore, "800"}}), "limit=1"));
  EXPECT_EQ(explained["nodes"].size(), 1U);
  EXPECT_EQ(explained["next"], "n1");
  EXPECT_EQ(explained["nodesFitting"], 0);
  std::size_t nodes = 0;
  for (const Parsed& reason : explained["reasons"]) nodes += reason["nodes"].get<std::size_t>();
  EXPECT_EQ(nodes, 2U);
}

TEST_F(Inspect, ExplainsWhyAPodIsRefusedEverywhere) {
  const Parsed explained = read(explain(test::pod_json("q", {{kMemory, "500"}})));
  EXPECT_THAT(explained["message"].get<std::string>(), HasSubstr("container"));
  EXPECT_EQ(explained["nodes"], Parsed::array());
}

TEST_F(Inspect, SaysInWordsWhatAPendingPodLacksAndWhatWouldHelp) {
  bind("p", "n1", "90/300", "0");
  const auto pending = [&](const std::string& pod) {
    return read(explain(pod)).value("pending", Parsed());
  };
  const Parsed answer = pending(test::pod_json("q", {{kCore, "800"}}));
  EXPECT_THAT(answer["why"].get<std::string>(),
              HasSubstr("container app needs 8 whole cards of one node; no node has more than"));
  EXPECT_EQ(pending(test::pod_json("q", {{kMemory, "500"}}))["help"], "");
  EXPECT_TRUE(pending(test::pod_json("q", {})).is_null()) << "it requests no cards";
}

TEST_F(Inspect, SaysWhichModelsThereAre) {
  const auto message = [&](Parsed requests, const std::string& key, const std::string& models,
                           const std::string& node = "") {
    Parsed pod = Parsed::parse(test::pod_json("q", requests));
    pod["metadata"]["annotations"]["vke.volcengine.com/" + key] = models;
    if (!node.empty()) pod["spec"]["nodeName"] = node;
    return read(explain(pod.dump())).value("message", "");
  };
  const Parsed share = {{kCore, "30"}, {kMemory, "500"}};
  const Parsed two_cards = {{kCore, "200"}};
  EXPECT_EQ(message(two_cards, "gpu-model", "A10"), "the models of the cluster's cards are A10");
  EXPECT_EQ(message(two_cards, "gpu-model", "A10", "n1"), "") << "the pod is bound";
  EXPECT_EQ(message(share, "gpu-model", "A10"), "") << "the pod fits";
  EXPECT_EQ(message(share, "gpu-model-exclude", "A10G"),
            "annotation vke.volcengine.com/gpu-model-exclude names \"A10G\", and no card of the "
            "cluster has such a name; their models are A10");
  EXPECT_EQ(message(share, "gpu-modell", "A10", "n1"),
            "mgpu does not know the annotation vke.volcengine.com/gpu-modell, and ignores it");
  EXPECT_EQ(message(share, "gpu-index-container-app", "0"), "") << "the extender writes it";
}

TEST_F(Inspect, SaysThatAPodHasFinished) {
  Parsed pod = Parsed::parse(test::pod_json("q", {{kCore, "100"}}));
  pod["status"]["phase"] = "Succeeded";
  const Parsed explained = read(explain(pod.dump()));
  EXPECT_EQ(explained["message"], "the pod has finished and holds no cards");
  EXPECT_EQ(explained["nodes"], Parsed::array());
}

TEST_F(Inspect, SaysThatAPodRequestsNoCards) {
  EXPECT_EQ(read(explain(test::pod_json("q")))["message"], "the pod requests no cards");
}

TEST_F(Inspect, RefusesAnInvalidManifest) {
  for (const std::string& body : {std::string(), std::string("{"), std::string("[]"),
                                  std::string("k8s\0\x0a\x05\x12\x03Pod", 11),
                                  std::string(R"({"spec": 3})"), std::string(100'000, '[')}) {
    const auto answer = explain(body);
    EXPECT_EQ(answer.status, 400) << body.substr(0, 20);
    EXPECT_THAT(answer.body, HasSubstr("the Pod manifest: ")) << body.substr(0, 20);
    EXPECT_LT(answer.body.size(), 1'000U);
  }
}

TEST_F(Inspect, ReadsThePodToExplain) {
  create(test::pod_json("q", {{kCore, "200"}}));
  const Parsed explained = view("explain", "name=q");
  EXPECT_EQ(explained["request"]["containers"][0]["cards"], 2);
  EXPECT_EQ(explained["nodes"][0]["fits"], true);
}

// What filter would answer (ledger/nominations.h).
TEST_F(Inspect, ExplainsThatCardsAreKeptForAnotherPod) {
  ledger.reservations().offer_nomination(
      {PodUid("preemptor"), 0},
      {{NodeName("n1"),
        {{CardIndex(0), test::share_of("100/1000")}, {CardIndex(1), test::share_of("80/1000")}},
        {}}},
      NodeName("n1"), executor.now() + kNominationLife);
  const std::string manifest = test::pod_json("q", {{kCore, "30"}, {kMemory, "500"}});
  create(manifest);
  for (const Parsed& explained : {read(explain(manifest)), view("explain", "name=q")}) {
    EXPECT_EQ(explained["nodesFitting"], 0);
    const Parsed& n1 = explained["nodes"][0];
    EXPECT_EQ(n1["reason"], sentence(Reason::kNominated));
    EXPECT_EQ(n1["cards"][1]["core"], Parsed::parse(R"({"asked": 30, "free": 20})"));
    EXPECT_THAT(explained["reasons"].dump(), HasSubstr(sentence(Reason::kNominated)));
  }
  EXPECT_EQ(view("cluster")["totals"]["podsNominated"], 1);
  executor.advance(kNominationLife);
  EXPECT_EQ(view("explain", "name=q")["nodesFitting"], 1);
  EXPECT_EQ(view("cluster")["totals"]["podsNominated"], 0);
}

TEST_F(Inspect, AnUnknownPodIsNotFound) {
  const auto answer = get("explain", "name=q");
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.body, HasSubstr("default/q"));
}

TEST_F(Inspect, IsUnavailableWithoutTheApiServer) {
  api_server.set_faults(
      [](const kube::Request&) { return test::Fault{.kind = test::Fault::Kind::kRefuse}; });
  EXPECT_EQ(get("explain", "name=q").status, 503);
}

TEST_F(Inspect, ShowsThePoliciesBeforeAnyPodIsSeen) {
  const Parsed policy = view("policy");
  EXPECT_EQ(policy["default"], "binpack");
  EXPECT_EQ(policy["podsSeen"], 0);
  EXPECT_EQ(policy["policies"], (Parsed{"equilibrium", "binpack", "spread"}));
  EXPECT_FALSE(policy.contains("prices"));
}

TEST_F(Inspect, ShowsTheLearnedWorkload) {
  const auto node = test::node_of("n1: 0[100/1000 model=A10]");
  auto learned = test::price_snapshot_of("3 x 30/300@2 on A10, 1 x wholex2@8", {node});
  learned.workload.classes[1].assumed = true;
  current.publish(std::make_shared<const PriceSnapshot>(std::move(learned)), executor.now());
  executor.advance(std::chrono::milliseconds(1'500));
  const Parsed prices = view("policy")["prices"];
  EXPECT_EQ(prices["version"], 1);
  EXPECT_EQ(prices["ageSeconds"], 1.5);
  EXPECT_EQ(prices["kinds"], Parsed::parse(R"([{"model": "A10", "memoryMiB": 1000}])"));
  ASSERT_EQ(prices["classes"].size(), 2U);
  const Parsed& first = prices["classes"][0];
  EXPECT_EQ(first["probability"], 0.75);
  EXPECT_EQ(first["core"], 30);
  EXPECT_EQ(first["memoryMiB"], 300);
  EXPECT_EQ(first["milliCPU"], 2'000);
  EXPECT_EQ(first["models"], Parsed::array({"A10"}));
  EXPECT_EQ(first["gpus"], 0.3);
  EXPECT_GE(first["supplyPrice"], 0);
  EXPECT_FALSE(first.contains("assumed"));
  EXPECT_FALSE(prices["classes"][1].contains("memoryMiB")) << "whole cards";
  EXPECT_EQ(prices["classes"][1]["assumed"], true);
}

TEST_F(Inspect, CountsTheGroupOfAPendingPod) {
  add_routes(*router, "/with", context, client, inspections,
             [](const std::string& group) { return group == "default/g" ? 3U : 0U; });
  Parsed pod = Parsed::parse(test::pod_json("q", {{kCore, "60"}, {kMemory, "1000"}}));
  pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "g";
  create(pod.dump());
  const http::Request request{.method = "GET", .path = "/with/explain", .query = "name=q"};
  const Parsed explained = read(send(request).value());
  EXPECT_EQ(explained["group"]["pods"], 3);
  EXPECT_EQ(explained["group"]["fitting"], 2);
  EXPECT_THAT(explained["pending"]["why"].get<std::string>(), HasSubstr("cards for 2 pods like"));
  EXPECT_FALSE(view("explain", "name=q").contains("group"));
}

TEST_F(Inspect, RunsNoCallbackAfterTheEndOfTheRouter) {
  create(test::pod_json("q", {{kCore, "200"}}));
  bool answered = false;
  const auto answer = [&](const http::Response&) { answered = true; };
  router->route({.method = "GET", .path = "/inspect/explain", .query = "name=q"}, answer);
  router->route({.method = "GET", .path = "/inspect/cluster"}, answer);
  router.reset();
  executor.run_ready();
  inspections.run_ready();
  EXPECT_FALSE(answered);
}

// --- where and how long --------------------------------------------------------------------------

TEST_F(Inspect, MakesAllViewsOnTheirOwnExecutor) {
  create(test::pod_json("q", {{kCore, "200"}}));
  struct {
    const char* method;
    const char* path;
    const char* query;
  } const requests[] = {{"GET", "/inspect/cluster", ""},       {"GET", "/inspect/node", "name=n1"},
                        {"GET", "/inspect/pod", "name=q"},     {"GET", "/inspect/policy", ""},
                        {"GET", "/inspect/explain", "name=q"}, {"POST", "/inspect/explain", ""}};
  for (const auto& request : requests) {
    bool answered = false;
    router->route({.method = request.method, .path = request.path, .query = request.query},
                  [&](const http::Response&) { answered = true; });
    executor.run_ready();
    EXPECT_FALSE(answered) << request.method << " " << request.path;
    EXPECT_EQ(inspections.run_ready(), 1U) << request.method << " " << request.path;
    EXPECT_TRUE(answered) << request.method << " " << request.path;
  }
}

TEST_F(Inspect, RefusesMoreRequestsThanMayWait) {
  create(test::pod_json("q", {{kCore, "200"}}));
  std::vector<int> statuses;
  const auto send_explain = [&] {
    router->route({.method = "GET", .path = "/inspect/explain", .query = "name=q"},
                  [&](const http::Response& answer) { statuses.push_back(answer.status); });
  };
  for (std::size_t i = 0; i < kInspectionsMax; ++i) send_explain();
  EXPECT_TRUE(statuses.empty());
  const auto refused = get("cluster");
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("8 requests for /inspect are being answered"));
  EXPECT_EQ(statuses, std::vector<int>(kInspectionsMax, 200));
  EXPECT_EQ(get("cluster").status, 200) << "the slots are free again";
}

TEST_F(Inspect, ARequestWithoutAnAnswerOfTheApiServerFreesItsSlot) {
  api_server.set_faults(
      [](const kube::Request&) { return test::Fault{.kind = test::Fault::Kind::kRefuse}; });
  for (std::size_t i = 0; i < 2 * kInspectionsMax; ++i)
    EXPECT_EQ(get("explain", "name=q").status, 503);
}

// Without packing that fits: each search on these nodes runs until its bound.
std::string hostile_pod() {
  std::string containers;
  for (int i = 0; i < 17; ++i) {
    containers += std::string(i == 0 ? "" : ",") + R"({"name":"c)" + std::to_string(i) +
                  R"(","resources":{"limits":{")" + kCore + R"(":")" + std::to_string(34 + i) +
                  R"(",")" + kMemory + R"(":"300"}}})";
  }
  return R"({"metadata":{"name":"hostile","namespace":"default"},"spec":{"containers":[)" +
         containers + "]}}";
}

struct ExplainBoundsTest : Inspect {
  ExplainBoundsTest() {
    std::string cards;
    for (int card = 0; card < 8; ++card) cards += " " + std::to_string(card) + "[100/100000]";
    for (int node = 0; node < kNodes; ++node)
      ledger.apply_node(test::facts_of("n" + std::to_string(node) + ":" + cards));
  }
  Parsed explain_within(const ExplainBounds& bounds, std::size_t limit = kNodes) {
    const auto pod = kube::read_pod(hostile_pod());
    return read(explain_view(context, *pod, {.after = "", .limit = limit}, bounds));
  }

  static constexpr int kNodes = 9;
};

TEST_F(ExplainBoundsTest, EndsAtItsSteps) {
  const Parsed explained = explain_within({500'000, kExplainRowsMax, [] { return true; }});
  EXPECT_GE(explained["nodes"].size(), 1U);
  EXPECT_LT(explained["nodes"].size(), std::size_t{kNodes});
  EXPECT_EQ(explained["next"], explained["nodes"].back()["name"]);
  EXPECT_GT(explained["nodesNotExamined"], 0);
}

TEST_F(ExplainBoundsTest, EndsWhenItIsToldTo) {
  int calls = 0;
  const Parsed explained =
      explain_within({kExplainStepsMax, kExplainRowsMax, [&] { return ++calls < 3; }});
  EXPECT_EQ(explained["nodes"].size(), 3U) << "the first and two others";
  EXPECT_EQ(explained["nodesFitting"], 0);
  EXPECT_EQ(explained["reasons"], Parsed::array());
  EXPECT_EQ(explained["nodesNotExamined"], kNodes);
  EXPECT_EQ(explained["message"],
            "the explanation ended at its limit of steps or time: 9 of 9 nodes were not examined");
}

TEST_F(ExplainBoundsTest, EndsAtItsRowsAndContinuesOnTheNextPage) {
  const Parsed explained = explain_within({kExplainStepsMax, 200, [] { return true; }});
  ASSERT_EQ(explained["nodes"].size(), 2U) << "a node has 17 * 8 rows";
  EXPECT_EQ(explained["next"], "n1");
  EXPECT_FALSE(explained.contains("nodesNotExamined")) << "the reasons of all nodes have no rows";
}

TEST_F(ExplainBoundsTest, ThePageIsExplainedThoughTheStepsDoNotSufficeForAllNodes) {
  const Parsed explained = explain_within({500'000, kExplainRowsMax, [] { return true; }}, 1);
  EXPECT_EQ(explained["nodes"].size(), 1U);
  EXPECT_EQ(explained["next"], "n0");
}

}  // namespace
}  // namespace mgpu::extender
