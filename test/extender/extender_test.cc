// The whole extender with the in-memory API server, over real HTTP.
#include "extender/extender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/asio_executor.h"
#include "common/base/log.h"
#include "common/kube/request.h"
#include "extender/placement/policies/policies.h"
#include "extender/requeue/requeue.h"
#include "test/support/faulty_api_server.h"
#include "test/support/kube_objects.h"
#include "test/support/raw_http.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using test::get_text;
using test::post_text;
using testing::HasSubstr;
using Json = nlohmann::json;

const std::string kCore = "vke.volcengine.com/mgpu-core";
const std::string kMemory = "vke.volcengine.com/mgpu-memory";
const std::string kAssumed = "vke.volcengine.com/assumed";
const char* const kVerbs[] = {"filter", "prioritize", "prioritize-non-gpu", "preempt", "bind"};
const std::string kCardCounts = "vke.volcengine.com/container-multiple-gpu";
const std::string kIndexOfApp = "vke.volcengine.com/gpu-index-container-app";

class ExtenderTest : public testing::Test {
 protected:
  ExtenderTest() {
    EXPECT_TRUE(set_log_level("off"));
    // Two cards each.
    for (const char* name : {"n1", "n2"}) {
      create("/api/v1/nodes", test::node_json(name, {{kCore, "200"}, {kMemory, "2000"}}));
    }
  }
  ~ExtenderTest() override {
    extender.reset();
    executor.stop();
  }

  // --- the API server ----------------------------------------------------------------------------

  void create(const std::string& collection, const std::string& object) {
    kube::Request request;
    request.method = kube::Method::kPost;
    request.target = collection;
    request.body = object;
    request.content_type = "application/json";
    EXPECT_EQ(api_server.call(request).status, 201) << object;
  }
  void create_pod(const std::string& name, const test::Amounts& limits) {
    create("/api/v1/namespaces/default/pods", test::pod_json(name, limits));
  }
  // As kubelet does.
  void report_running(const std::string& name) {
    kube::Request request;
    request.method = kube::Method::kPatch;
    request.target = "/api/v1/namespaces/default/pods/" + name + "/status";
    request.body = R"({"status": {"phase": "Running"}})";
    request.content_type = "application/merge-patch+json";
    EXPECT_EQ(api_server.call(request).status, 200) << name;
  }
  void remove_pod(const std::string& name) {
    kube::Request request;
    request.method = kube::Method::kDelete;
    request.target = "/api/v1/namespaces/default/pods/" + name + "?gracePeriodSeconds=0";
    EXPECT_TRUE(api_server.call(request).ok());
  }
  // As kube-scheduler does after a preemption; with null the pod is nominated for no node.
  void nominate(const std::string& name, const Json& node) {
    kube::Request request;
    request.method = kube::Method::kPatch;
    request.target = "/api/v1/namespaces/default/pods/" + name + "/status";
    request.content_type = "application/merge-patch+json";
    request.body = Json({{"status", {{"nominatedNodeName", node}}}}).dump();
    EXPECT_TRUE(api_server.call(request).ok());
  }
  Json pod(const std::string& name) {
    return Json::parse(api_server.call(kube::get_pod({"default", name})).body);
  }
  // Null removes an annotation.
  void annotate(const std::string& name, const std::string& key, const Json& value) {
    kube::Request request;
    request.method = kube::Method::kPatch;
    request.target = "/api/v1/namespaces/default/pods/" + name;
    request.body = Json{{"metadata", {{"annotations", {{key, value}}}}}}.dump();
    request.content_type = "application/merge-patch+json";
    EXPECT_TRUE(api_server.call(request).ok()) << request.body;
  }
  void stop_api_server() {
    api_server.set_faults(
        [](const kube::Request&) { return test::Fault{.kind = test::Fault::Kind::kRefuse}; });
    api_server.drop_watches();
  }

  // --- the extender ------------------------------------------------------------------------------

  // Filter answers with all nodes that fit.
  static ExtenderOptions options() {
    ExtenderOptions out;
    out.verbs.candidate_nodes = 0;
    out.verbs.contract = *Contract::for_domain(kDefaultResourceDomain);
    out.verbs.policy = *find_policy("binpack");
    out.requeue_namespace = "default";
    return out;
  }
  void start() {
    extender.reset();
    auto started = Extender::start(options(), api_server);
    ASSERT_TRUE(started) << started.error().message;
    extender = std::move(*started);
  }
  void start_ready() {
    start();
    ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  }
  void start_ready_with(const ExtenderOptions& set) {
    auto started = Extender::start(set, api_server);
    ASSERT_TRUE(started) << started.error().message;
    extender = std::move(*started);
    ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  }
  static bool becomes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 6'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  static test::RawResponse send_to(std::uint16_t port, const std::string& bytes) {
    test::RawClient client(port);
    client.send(bytes);
    return client.read_response();
  }
  // To the verbs.
  test::RawResponse send(const std::string& bytes) const {
    return send_to(extender->port(), bytes);
  }
  // From probes, metrics and inspection.
  test::RawResponse get(const std::string& path) const {
    return send_to(extender->service_port(), get_text(path));
  }
  bool api_server_is_failing() const {
    return get("/readyz").body.find("no answer for") != std::string::npos;
  }
  Json post(const std::string& verb, const Json& body) const {
    const auto answer = send(post_text("/mgpu/" + verb, body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }

  // --- kube-scheduler ----------------------------------------------------------------------------

  Json filter(const std::string& name) {
    return post("filter", {{"Pod", pod(name)}, {"Nodes", nullptr}, {"NodeNames", {"n1", "n2"}}});
  }
  // The pod "p" with three containers, of which a node of two cards takes two.
  Json unfit_filter() {
    Json several = pod("p");
    Json& containers = several["spec"]["containers"];
    for (const char* name : {"b", "c"}) {
      containers.push_back(containers[0]);
      containers.back()["name"] = name;
    }
    return {{"Pod", several}, {"NodeNames", {"n1", "n2"}}};
  }
  std::string bind(const std::string& name, const std::string& node) {
    return post("bind", {{"PodName", name},
                         {"PodNamespace", "default"},
                         {"PodUID", pod(name)["metadata"]["uid"]},
                         {"Node", node}})["Error"];
  }
  // The node, or "" where no node fits or bind fails.
  std::string schedule(const std::string& name) {
    const Json fitting = filter(name)["NodeNames"];
    if (!fitting.is_array() || fitting.empty()) return "";
    const Json scores = post("prioritize", {{"Pod", pod(name)}, {"NodeNames", fitting}});
    Json best = scores[0];
    for (const Json& score : scores) {
      if (score["Score"] > best["Score"]) best = score;
    }
    const std::string node = best["Host"];
    return bind(name, node).empty() ? node : "";
  }

  AsioExecutor executor;
  test::FaultyApiServer api_server{executor, {}};
  std::unique_ptr<Extender> extender;
};

TEST_F(ExtenderTest, PlacesAPodFromFilterToBind) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  const Json filtered = filter("p");
  EXPECT_EQ(filtered["NodeNames"], Json({"n1", "n2"}));
  EXPECT_EQ(filtered["Error"], "");
  EXPECT_NE(schedule("p"), "");
  const Json bound = pod("p");
  EXPECT_THAT(bound["spec"]["nodeName"].get<std::string>(), testing::AnyOf("n1", "n2"));
  EXPECT_EQ(bound["metadata"]["annotations"][kAssumed], "true");
  EXPECT_EQ(bound["metadata"]["annotations"][kIndexOfApp], "0");
}

TEST_F(ExtenderTest, FillsEveryCardAndNoMore) {
  start_ready();
  for (int i = 0; i < 9; ++i) {
    const std::string name = "p" + std::to_string(i);
    create_pod(name, {{kCore, "50"}, {kMemory, "500"}});
    EXPECT_EQ(schedule(name).empty(), i == 8) << "four cards take two each; " << name;
  }
  const Json refused = filter("p8");
  EXPECT_EQ(refused["NodeNames"], Json::array());
  EXPECT_EQ(refused["FailedAndUnresolvableNodes"].size(), 2U);
  EXPECT_EQ(refused["FailedAndUnresolvableNodes"]["n1"],
            refused["FailedAndUnresolvableNodes"]["n2"]);
  EXPECT_NE(bind("p8", "n1"), "");
  EXPECT_FALSE(pod("p8")["spec"].contains("nodeName"));
}

TEST_F(ExtenderTest, ReleasesTheShareOfADeletedPod) {
  start_ready();
  create_pod("whole", {{kCore, "200"}});
  create_pod("next", {{kCore, "200"}});
  const std::string node = schedule("whole");
  ASSERT_NE(node, "");
  EXPECT_EQ(filter("next")["NodeNames"].size(), 1U);
  remove_pod("whole");
  EXPECT_TRUE(becomes_true([this] { return filter("next")["NodeNames"].size() == 2; }));
}

// kube-scheduler asks about 100 of 103 nodes. n1 and n2 have no CPU; the last node has a free card.
TEST_F(ExtenderTest, APodEvictsNobodyWhileANodeThatFitsMayBeUnexamined) {
  Json names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "small" + std::to_string(i);
    names.push_back(name);
    create("/api/v1/nodes", test::node_json(name, {{kCore, "100"}, {kMemory, "300"}}));
  }
  create(
      "/api/v1/nodes",
      test::node_json(
          "free",
          {{kCore, "100"}, {kMemory, "2000"}, {"cpu", "64"}, {"memory", "64Gi"}, {"pods", "110"}}));
  create_pod("victim", {{kCore, "200"}});
  create_pod("p", {{kCore, "100"}, {kMemory, "1000"}});
  start_ready();
  ASSERT_EQ(bind("victim", "n1"), "");
  ASSERT_TRUE(becomes_true([this] {
    return Json::parse(get("/inspect/pod?namespace=default&name=victim").body)
               .value("phase", std::string()) == "bound";
  }));
  Json preemptor = pod("p");
  preemptor["spec"]["priority"] = 9;
  Json victims;
  victims["n1"]["Pods"] = Json::array({{{"UID", pod("victim")["metadata"]["uid"]}}});
  victims["n1"]["NumPDBViolations"] = 0;
  const auto evicted = [&] {
    return post("preempt",
                {{"Pod", preemptor}, {"NodeNameToMetaVictims", victims}})["NodeNameToMetaVictims"];
  };
  const auto rejected = [&] {
    return post("filter", {{"Pod", preemptor}, {"NodeNames", names}})["NodeNames"].empty();
  };
  EXPECT_TRUE(rejected());
  EXPECT_EQ(evicted(), Json::object());
  EXPECT_EQ(evicted(), victims) << "filter was not called in between";
  EXPECT_TRUE(rejected());
  EXPECT_EQ(evicted(), victims) << "all nodes were examined, since none was new";
  EXPECT_TRUE(becomes_true([this] {
    return get("/metrics").body.find("mgpu_extender_requeues_total{result=\"requeued\"} 1\n") !=
           std::string::npos;
  }));
}

TEST_F(ExtenderTest, KeepsTheCardsOfVictimsForTheNominatedPod) {
  start_ready();
  for (const char* name : {"full", "victim", "preemptor", "small"})
    create_pod(name, {{kCore, "200"}});
  ASSERT_NE(schedule("full"), "");
  const std::string node = schedule("victim");
  ASSERT_NE(node, "");
  ASSERT_TRUE(becomes_true([this] {
    const Json held = Json::parse(get("/inspect/pod?namespace=default&name=victim").body);
    return held.value("phase", std::string()) == "bound";
  }));
  Json preemptor = pod("preemptor");
  preemptor["spec"]["priority"] = 9;
  const Json uid = pod("victim")["metadata"]["uid"];
  Json victims;
  victims[node]["Pods"] = Json::array({{{"UID", uid}}});
  victims[node]["NumPDBViolations"] = 0;
  const Json answer = post("preempt", {{"Pod", preemptor}, {"NodeNameToMetaVictims", victims}});
  ASSERT_EQ(answer["NodeNameToMetaVictims"], victims);
  nominate("preemptor", node);
  remove_pod("victim");
  const std::string kept = "node(s) had free cards that are kept for another pod";
  EXPECT_TRUE(becomes_true([&] {
    return filter("small")["FailedAndUnresolvableNodes"].value(node, std::string()) == kept;
  }));
  nominate("preemptor", nullptr);
  EXPECT_TRUE(becomes_true([&] { return filter("small")["NodeNames"] == Json::array({node}); }));
}

TEST_F(ExtenderTest, RequeuesAPodThatWasRejectedBeforeARelease) {
  start_ready();
  for (const char* name : {"first", "second", "waiting"}) create_pod(name, {{kCore, "200"}});
  ASSERT_NE(schedule("first"), "");
  ASSERT_NE(schedule("second"), "");
  ASSERT_EQ(schedule("waiting"), "");
  remove_pod("first");
  kube::Request object;
  object.target = std::string("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/") +
                  kRequeueObject;
  EXPECT_TRUE(becomes_true([&] { return api_server.call(object).ok(); }));
  const std::string requeued = "mgpu_extender_requeues_total{result=\"requeued\"} 1";
  EXPECT_TRUE(
      becomes_true([&] { return get("/metrics").body.find(requeued) != std::string::npos; }));
  EXPECT_NE(schedule("waiting"), "");
}

TEST_F(ExtenderTest, RebuildsTheSameLedgerWhenItStartsAgain) {
  start_ready();
  const char* requests[] = {"30", "80", "20", "70"};
  for (int i = 0; i < 4; ++i) {
    const std::string name = "p" + std::to_string(i);
    create_pod(name, {{kCore, requests[i]}, {kMemory, "400"}});
    ASSERT_NE(schedule(name), "");
  }
  const auto cluster = [this] { return Json::parse(get("/inspect/cluster").body); };
  ASSERT_TRUE(becomes_true([&] { return cluster()["totals"]["podsBound"] == 4; }));
  Json before = cluster();
  start_ready();
  Json after = cluster();
  for (Json* view : {&before, &after}) (*view)["totals"].erase("expectedPlacements");
  EXPECT_EQ(after, before);
}

// --- edited annotations --------------------------------------------------------------------------

TEST_F(ExtenderTest, KeepsTheCardsOfAPodWhoseAnnotationIsEdited) {
  start_ready();
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  ASSERT_NE(schedule("p"), "");
  const auto shown = [this] { return Json::parse(get("/inspect/pod?name=p").body); };
  ASSERT_TRUE(becomes_true([&] { return shown()["phase"] == "bound"; }));
  const Json before = shown();
  annotate("p", kIndexOfApp, "1");
  ASSERT_TRUE(becomes_true([&] { return shown().contains("drift"); }));
  EXPECT_EQ(shown()["drift"], "ChangedAnnotations");
  EXPECT_EQ(shown()["holds"], before["holds"]);
  EXPECT_EQ(shown()["containers"], before["containers"]);
  const auto metric = [this](const std::string& line) {
    return becomes_true(
        [&] { return get("/metrics").body.find(line + "\n") != std::string::npos; });
  };
  EXPECT_TRUE(metric("mgpu_extender_drifts_total{drift=\"ChangedAnnotations\"} 1"));
  EXPECT_TRUE(metric("mgpu_extender_drifting_pods 1"));
  annotate("p", kIndexOfApp, "0");
  EXPECT_TRUE(metric("mgpu_extender_drifting_pods 0"));
  EXPECT_TRUE(metric("mgpu_extender_nominated_pods 0"));
  EXPECT_EQ(shown(), before);
}

// The binding has the version of the pod that filter was sent, so the API server refuses it, and
// the cards are chosen again.
TEST_F(ExtenderTest, BindsWhatThePodRequestsWhenItIsBound) {
  start_ready();
  create_pod("p", {{kCore, "100"}, {kMemory, "1000"}});
  annotate("p", kCardCounts, "2");
  ASSERT_EQ(filter("p")["NodeNames"].size(), 2U);
  annotate("p", kCardCounts, "1");
  ASSERT_EQ(bind("p", "n1"), "");
  const auto node = [this] { return Json::parse(get("/inspect/node?name=n1").body); };
  ASSERT_TRUE(becomes_true([&] { return node()["pods"][0]["phase"] == "bound"; }));
  const Json shown = node();
  EXPECT_FALSE(shown["pods"][0].contains("drift"));
  std::vector<int> used;
  for (const Json& card : shown["cards"]) used.push_back(card["core"]["used"]);
  EXPECT_THAT(used, testing::UnorderedElementsAre(100, 0));
}

// --- readiness -----------------------------------------------------------------------------------

TEST_F(ExtenderTest, LearnsTheWorkloadFromFilteredPodsAndFromRunningPods) {
  const auto policy = [this] { return Json::parse(get("/inspect/policy").body); };
  start_ready();
  EXPECT_EQ(policy()["podsSeen"], 0);
  for (const char* name : {"a", "b", "c"}) {
    create_pod(name, {{kCore, "30"}, {kMemory, "300"}});
    ASSERT_NE(schedule(name), "");
  }
  EXPECT_EQ(policy()["podsSeen"], 3);
  for (const char* name : {"a", "b"}) report_running(name);
  start_ready();
  EXPECT_EQ(policy()["podsSeen"], 2) << "no pod was filtered since, and c does not run";
  ASSERT_TRUE(becomes_true([&] { return policy().contains("prices"); }));
  EXPECT_EQ(policy()["prices"]["kinds"].size(), 1U);
  EXPECT_GE(policy()["prices"]["classes"].size(), 1U);
}

TEST_F(ExtenderTest, IsNotReadyWhileTheApiServerDoesNotAnswer) {
  stop_api_server();
  start();
  ASSERT_TRUE(becomes_true([this] { return api_server_is_failing(); }));
  const auto ready = get("/readyz");
  EXPECT_EQ(ready.status, 503);
  const Json body = Json::parse(ready.body);
  EXPECT_EQ(body["ready"], false);
  ASSERT_EQ(body["waiting_for"].size(), 3U);
  EXPECT_EQ(body["waiting_for"][0], "check of preconditions");
  EXPECT_EQ(body["waiting_for"][1], "nodes");
  EXPECT_EQ(body["waiting_for"][2], "pods");
  EXPECT_EQ(body["without"], Json({"poddisruptionbudgets", "nominatedpods"}));
  EXPECT_THAT(body["api_server"].get<std::string>(), testing::StartsWith("no answer for "));
  EXPECT_FALSE(extender->ready());
  EXPECT_EQ(get("/healthz").status, 200);
  for (const char* verb : kVerbs) {
    const auto refused = send(post_text(std::string("/mgpu/") + verb, "{}"));
    EXPECT_EQ(refused.status, 503) << verb;
    EXPECT_EQ(refused.headers.at("connection"), "close") << verb;
  }
  EXPECT_THAT(get("/metrics").body, HasSubstr("mgpu_extender_verbs_refused_total 5"));
  api_server.set_faults({});
  EXPECT_TRUE(becomes_true([this] { return get("/readyz").status == 200; }));
  EXPECT_TRUE(becomes_true([this] {
    return get("/readyz").body == "{\"ready\": true, \"api_server\": \"answers\"}\n";
  }));
}

// They only order the victims of preemption.
TEST_F(ExtenderTest, IsReadyWithoutDisruptionBudgets) {
  api_server.set_faults([](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target.find("poddisruptionbudgets") == std::string::npos) return std::nullopt;
    return test::Fault{.status = 403};
  });
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  EXPECT_NE(schedule("p"), "");
  const Json body = Json::parse(get("/readyz").body);
  EXPECT_EQ(body["ready"], true);
  EXPECT_EQ(body["without"], Json({"poddisruptionbudgets"}));
}

TEST_F(ExtenderTest, EndsToDecideOnceAnotherProcessHoldsTheLease) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  std::atomic<int> lost = 0;
  ExtenderOptions with_event = options();
  with_event.on_lease_lost = [&](const std::string& why) { lost += !why.empty(); };
  auto first = Extender::start(with_event, api_server);
  ASSERT_TRUE(first);
  ASSERT_TRUE(becomes_true([&] { return (*first)->ready(); }));
  start_ready();  // another one
  extender.swap(*first);
  EXPECT_THAT(bind("p", "n1"), HasSubstr("no longer holds the lease"));
  EXPECT_FALSE(extender->ready());
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(Json::parse(get("/readyz").body)["waiting_for"],
            Json({"lease kube-system/mgpu-extender"}));
  EXPECT_EQ(send(post_text("/mgpu/bind", "{}")).status, 503);
  extender.swap(*first);
  EXPECT_EQ(bind("p", "n1"), "");
}

TEST_F(ExtenderTest, FilterWorksWithoutTheApiServer) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  const Json before = pod("p");
  start_ready();
  stop_api_server();
  ASSERT_TRUE(becomes_true([this] { return api_server_is_failing(); }));
  EXPECT_EQ(get("/readyz").status, 200) << "scheduling goes on";
  const Json filtered = post("filter", {{"Pod", before}, {"NodeNames", {"n1", "n2"}}});
  EXPECT_EQ(filtered["NodeNames"].size(), 2U);
  const Json bound = post("bind", {{"PodName", "p"},
                                   {"PodNamespace", "default"},
                                   {"PodUID", before["metadata"]["uid"]},
                                   {"Node", "n1"}});
  EXPECT_NE(bound["Error"], "");
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("mgpu_extender_binds_total{outcome=\"unavailable\"} 1"));
  api_server.set_faults({});
  EXPECT_TRUE(
      becomes_true([this] { return get("/readyz").body.find("answers") != std::string::npos; }));
}

// --- bad input -----------------------------------------------------------------------------------

TEST_F(ExtenderTest, RefusesMalformedMessages) {
  start_ready();
  for (const char* verb : kVerbs) {
    for (const char* body : {"", "{", "[]", "null", "{\"Pod\": 3}", "\xff\xfe"}) {
      const auto answer = send(post_text(std::string("/mgpu/") + verb, body));
      EXPECT_EQ(answer.status, 400) << verb << " " << body;
      EXPECT_FALSE(Json::parse(answer.body)["error"].get<std::string>().empty());
    }
  }
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("mgpu_extender_bad_requests_total{verb=\"filter\"} 6"));
}

TEST_F(ExtenderTest, AnswersForUnknownNodes) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  Json names = Json::array();
  for (int i = 0; i < 20'000; ++i) names.push_back("unknown-" + std::to_string(i));
  const Json filtered = post("filter", {{"Pod", pod("p")}, {"NodeNames", names}});
  EXPECT_EQ(filtered["NodeNames"], Json::array());
  EXPECT_EQ(filtered["FailedAndUnresolvableNodes"].size(), 20'000U);
  EXPECT_NE(bind("p", "unknown-0"), "");
}

TEST_F(ExtenderTest, RefusesToBindAPodThatIsBoundElsewhere) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  ASSERT_EQ(bind("p", "n1"), "");
  EXPECT_NE(bind("p", "n2"), "");
  EXPECT_EQ(pod("p")["spec"]["nodeName"], "n1");
}

TEST_F(ExtenderTest, ServesItsPathsAndMethods) {
  start_ready();
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(send(get_text("/mgpu/filter")).status, 405);
  EXPECT_EQ(send_to(extender->service_port(), post_text("/readyz", "")).headers.at("allow"),
            "GET, HEAD");
  EXPECT_EQ(get("/version").body, "{\"version\": \"" MGPU_VERSION "\", \"commit\": \"unknown\"}\n");
  EXPECT_EQ(get("/inspect/cluster").status, 200);
}

// A client that may bind is not needed for probes, and the other way round.
TEST_F(ExtenderTest, EachListenerServesItsPathsOnly) {
  start_ready();
  for (const char* path :
       {"/healthz", "/livez", "/readyz", "/metrics", "/version", "/inspect/cluster"}) {
    EXPECT_EQ(get(path).status, 200) << path;
    EXPECT_EQ(send(get_text(path)).status, 404) << path;
  }
  for (const char* verb : kVerbs) {
    const std::string request = post_text(std::string("/mgpu/") + verb, "{");
    EXPECT_EQ(send(request).status, 400) << verb;
    EXPECT_EQ(send_to(extender->service_port(), request).status, 404) << verb;
  }
}

TEST_F(ExtenderTest, InspectionNeedsATokenWhereTheNetworkReachesIt) {
  api_server.set_token(
      "reader", {.name = "prometheus", .uid = {}, .groups = {"system:masters"}, .extra = {}});
  ExtenderOptions open = options();
  open.service.http.address = "0.0.0.0";
  open.service.insecure = true;
  auto started = Extender::start(open, api_server);
  ASSERT_TRUE(started) << started.error().message;
  extender = std::move(*started);
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  EXPECT_EQ(get("/readyz").status, 200);
  const auto with_token = [this](const std::string& path) {
    return send_to(extender->service_port(), "GET " + path +
                                                 " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                                                 "reader\r\n\r\n");
  };
  for (const char* path : {"/metrics", "/inspect/cluster", "/inspect/policy"}) {
    EXPECT_EQ(get(path).status, 401) << path;
    EXPECT_EQ(with_token(path).status, 200) << path;
  }
}

// The policy has no cached scores, so that each decision takes the steps of its search.
const Policy kNotCached = [] {
  Policy policy = kBinpack;
  policy.per_pod = true;
  return policy;
}();

TEST_F(ExtenderTest, ARejectionIsDecidedOnceWhereNothingBecameFree) {
  create_pod("p", {{kCore, "60"}, {kMemory, "600"}});
  auto set = options();
  set.verbs.candidate_nodes = 1;
  set.verbs.policy = {&kNotCached, &kNotCached};
  start_ready_with(set);
  const Json body = unfit_filter();
  const auto steps_of = [&](const char* verb) {
    const std::string name = "\nmgpu_extender_search_steps_total ";
    const auto steps = [&] {
      const std::string metrics = get("/metrics").body;
      return std::stod(metrics.substr(metrics.find(name) + name.size()));
    };
    const double before = steps();
    post(verb, body);
    return steps() - before;
  };
  steps_of("filter");  // its reasons are cached
  const double once = steps_of("prioritize");
  EXPECT_GT(once, 0);
  EXPECT_EQ(steps_of("filter"), once);
}

// --- metrics, drain ------------------------------------------------------------------------------

TEST_F(ExtenderTest, ExportsItsMetrics) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  ASSERT_NE(schedule("p"), "");
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {
           "mgpu_extender_verb_duration_seconds_count{verb=\"filter\"} 1",
           "mgpu_extender_verb_duration_seconds_count{verb=\"bind\"} 1",
           "mgpu_extender_binds_total{outcome=\"bound\"} 1",
           "mgpu_extender_binds_total{outcome=\"unfit\"} 0",
           "mgpu_extender_bind_conflicts_total 0",
           "mgpu_extender_filters_delayed_total 0",
           "mgpu_extender_verbs_refused_total 0",
           "mgpu_extender_pod_touches_total{result=\"failed\"} 0",
           "mgpu_extender_filter_nodes_total{result=\"fits\"} 2",
           "mgpu_extender_nodes 2",
           "mgpu_extender_cards 4",
           "mgpu_extender_ready 1",
           "mgpu_extender_requeues_total{result=\"refused\"} 0",
           "mgpu_extender_build_info{commit=\"unknown\",version=\"" MGPU_VERSION "\"} 1",
           "mgpu_extender_watch_silence_seconds{resource=\"nodes\"}",
           "mgpu_extender_http_connections{listener=\"verbs\"}",
           "mgpu_extender_http_connections{listener=\"metrics\"} 1",
           "process_resident_memory_bytes",
       }) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
}

TEST_F(ExtenderTest, IsNotReadyOnceItDrains) {
  start_ready();
  test::RawClient idle(extender->port());
  extender->drain();
  EXPECT_FALSE(extender->ready());
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(get("/readyz").body, "{\"ready\": false, \"draining\": true}\n")
      << "probes are answered until the end";
}

Extender* drained_by_the_policy = nullptr;

Score drain_the_extender(const PlacementContext&, const Node&, const Card&, const Share&,
                         const Share&) {
  drained_by_the_policy->drain();
  return 0;
}
const Policy kDrainsTheExtender{
    .name = "drains", .score_card = drain_the_extender, .score_node = kBinpack.score_node};

// Its search was cut short, so that it may fit; and what was rejected would be forgotten.
TEST_F(ExtenderTest, RejectsNoPodOnceItDrains) {
  create_pod("p", {{kCore, "60"}, {kMemory, "600"}});
  auto set = options();
  set.verbs.candidate_nodes = 1;
  set.verbs.policy = {&kDrainsTheExtender, &kDrainsTheExtender};
  start_ready_with(set);
  drained_by_the_policy = extender.get();
  const auto answer = send(post_text("/mgpu/filter", unfit_filter().dump()));
  EXPECT_EQ(answer.status, 503) << answer.body;
}

TEST_F(ExtenderTest, FinishesABindBeforeItEnds) {
  create_pod("p", {{kCore, "30"}, {kMemory, "500"}});
  start_ready();
  const Json args = {{"PodName", "p"},
                     {"PodNamespace", "default"},
                     {"PodUID", pod("p")["metadata"]["uid"]},
                     {"Node", "n1"}};
  std::atomic<bool> reached = false;
  api_server.set_faults([&](const kube::Request& request) -> std::optional<test::Fault> {
    if (request.target.find("/binding") == std::string::npos) return std::nullopt;
    reached = true;
    return test::Fault{.kind = test::Fault::Kind::kDelay, .delay = Duration(200)};
  });
  test::RawClient client(extender->port());
  client.send(post_text("/mgpu/bind", args.dump()));
  ASSERT_TRUE(becomes_true([&] { return reached.load(); }));
  extender.reset();
  EXPECT_EQ(Json::parse(client.read_response().body)["Error"], "");
  EXPECT_EQ(pod("p")["spec"]["nodeName"], "n1");
}

TEST_F(ExtenderTest, EndsWhileItListsPodsAsTheNewLeader) {
  create("/api/v1/namespaces/default/services",
         R"({"metadata": {"name": "mgpu"}, "spec": {"ports": [{"name": "verbs", "port": 80}]}})");
  std::atomic<bool> leads = false;
  std::atomic<bool> lists = false;
  // The pods arrive while the extender waits for the answer that it has given up the Lease.
  api_server.set_faults([&](const kube::Request& request) -> std::optional<test::Fault> {
    const bool of_lease = request.target.find("/leases") != std::string::npos;
    if (of_lease && request.method == kube::Method::kPost) leads = true;
    if (of_lease && request.method == kube::Method::kPut) {
      return test::Fault{.kind = test::Fault::Kind::kDelay, .delay = Duration(1'500)};
    }
    const bool of_bound_pods = request.target.find("nodeName%21%3D") != std::string::npos;
    if (!leads || !of_bound_pods || lists.exchange(true)) return std::nullopt;
    return test::Fault{.kind = test::Fault::Kind::kDelay, .delay = Duration(500)};
  });
  ExtenderOptions elected = options();
  elected.election = ElectionOptions();
  elected.endpoints = EndpointOptions{{"default", "mgpu"}, "192.0.2.1"};
  auto started = Extender::start(elected, api_server, &api_server);
  ASSERT_TRUE(started) << started.error().message;
  ASSERT_TRUE(becomes_true([&] { return lists.load(); }));
  started->reset();
  const kube::Response lease = api_server.call(kube::get_lease(elected.lease));
  EXPECT_EQ(Json::parse(lease.body)["spec"].value("holderIdentity", ""), "");
  EXPECT_EQ(api_server.call(kube::get_endpoint_slice({"default", "mgpu"})).status, 404)
      << "a process that ends is no endpoint";
}

TEST_F(ExtenderTest, ReportsWhyItCannotStart) {
  start();
  ExtenderOptions same = options();
  same.http.port = extender->port();
  ExtenderOptions same_service = options();
  same_service.service.http.port = extender->service_port();
  for (const ExtenderOptions& each : {same, same_service}) {
    const auto second = Extender::start(each, api_server);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("address already in use"));
  }
  ExtenderOptions without_ca = options();
  without_ca.prometheus = kube::Config{.server = "https://127.0.0.1", .ca = {"", "/no/ca.crt"}};
  const auto second = Extender::start(without_ca, api_server);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("--prometheus-url: "));
  EXPECT_THAT(second.error().message, HasSubstr("/no/ca.crt"));
}

// Nothing waits for a Prometheus, whatever is at its address.
TEST_F(ExtenderTest, DecidesWithoutPrometheus) {
  ExtenderOptions with = options();
  with.prometheus = kube::Config{.server = "http://127.0.0.1:1"};
  auto started = Extender::start(with, api_server);
  ASSERT_TRUE(started) << started.error().message;
  extender = std::move(*started);
  ASSERT_TRUE(becomes_true([this] { return extender->ready(); }));
  const test::RawResponse use = get("/web/use?namespace=a&pod=b");
  EXPECT_EQ(use.status, 503);
  EXPECT_THAT(use.body, HasSubstr("Prometheus does not answer"));
}

}  // namespace
}  // namespace mgpu::extender
