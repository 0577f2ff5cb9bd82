// Pods and nodes: defaults and validation, status, deletion of a pod.
#include <string>
#include <utility>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(PodsConformance);

constexpr const char* kMemory = "example.com/memory";

Json resources_of(const Json& pod) {
  return pod["spec"]["containers"][0]["resources"];
}

Json pod_with(const std::string& name, const Json& resources) {
  Json pod = Json::parse(pod_json(name));
  pod["spec"]["containers"][0]["resources"] = resources;
  return pod;
}

TEST_P(PodsConformance, QuantitiesAreStoredInCanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"8000", "8k"},   {"12000", "12k"},  {"130040", "130040"}, {"1000000", "1M"},
      {"0", "0"},       {"0.5k", "500"},   {"1e3", "1e3"},       {"1e4", "10e3"},
      {"12e3", "12e3"}, {"1024Ki", "1Mi"}, {"1000Ki", "1000Ki"}, {"1.5Gi", "1536Mi"},
      {"0.5Ki", "512"}, {"2048", "2048"},  {"100e-2", "1"},      {"1E", "1E"},
      {"16000m", "16"}, {"16000k", "16M"}, {"1Ki", "1Ki"},       {"512Ki", "512Ki"},
  };
  for (const auto& [written, kept] : cases) {
    const Answer answer = post(pods() + "?dryRun=All", pod_json("p", {{kMemory, written}}));
    ASSERT_EQ(answer.code, 201) << written << answer.text;
    EXPECT_EQ(resources_of(answer.body)["limits"][kMemory], kept) << written;
  }
  EXPECT_EQ(resources_of(create_pod(name("pod"), {{"cpu", "0.5"}}))["limits"]["cpu"], "500m");
}

TEST_P(PodsConformance, NumbersAreQuantities) {
  const Json pod = pod_with(name("pod"), {{"limits", {{kMemory, 8000}}}});
  EXPECT_EQ(resources_of(create(pods(), pod.dump()))["limits"][kMemory], "8k");
}

TEST_P(PodsConformance, RequestsAreSetFromLimits) {
  const Json pod = create_pod(name("pod"), {{kMemory, "8000"}, {"cpu", "2"}});
  EXPECT_EQ(resources_of(pod)["requests"], Json({{kMemory, "8k"}, {"cpu", "2"}}));
}

TEST_P(PodsConformance, DefaultsAreSet) {
  const Json pod = create_pod(name("pod"));
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Always");
  EXPECT_EQ(pod["spec"]["schedulerName"], "default-scheduler");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 30);
  EXPECT_EQ(pod["spec"]["priority"], 0);
  EXPECT_EQ(pod["metadata"]["namespace"], name_space());
}

TEST_P(PodsConformance, InvalidAmountsAreRefused) {
  struct Case {
    Json resources;
    int code;
    const char* words;
  };
  const Case cases[] = {
      {{{"limits", {{kMemory, "1.5"}}}}, 422, "must be an integer"},
      {{{"limits", {{kMemory, "500m"}}}}, 422, "must be an integer"},
      {{{"limits", {{kMemory, "-1"}}}}, 422, "must be greater than or equal to 0"},
      {{{"limits", {{kMemory, "much"}}}}, 400, "quantities must match"},
      {{{"limits", {{kMemory, ""}}}}, 400, "quantities must match"},
      {{{"requests", {{kMemory, "1"}}}}, 422, "Limit must be set"},
      {{{"requests", {{kMemory, "1"}}}, {"limits", {{kMemory, "2"}}}}, 422, "must be equal to"},
      {{{"requests", {{"cpu", "2"}}}, {"limits", {{"cpu", "1"}}}}, 422, "must be less than"},
  };
  for (const Case& c : cases) {
    const Answer answer = post(pods(), pod_with(name("pod"), c.resources).dump());
    EXPECT_EQ(answer.code, c.code) << c.resources << "\n" << answer.text;
    EXPECT_NE(answer.text.find(c.words), std::string::npos) << answer.text;
  }
}

TEST_P(PodsConformance, ContainersNeedNameAndImage) {
  const auto with = [&](const Json& containers) {
    Json pod = Json::parse(pod_json(name("pod")));
    pod["spec"]["containers"] = containers;
    return pod.dump();
  };
  const Json good = {{"name", "c"}, {"image", "i"}};
  const std::string cases[] = {
      with(Json::array()),
      with(Json::array({{{"image", "i"}}})),
      with(Json::array({{{"name", "c"}}})),
      with(Json::array({{{"name", "C_"}, {"image", "i"}}})),
      with(Json::array({{{"name", std::string(64, 'c')}, {"image", "i"}}})),
  };
  for (const std::string& body : cases) EXPECT_EQ(post(pods(), body).code, 422) << body;
  EXPECT_EQ(post(pods(), with(good)).code, 400);
}

TEST_P(PodsConformance, NamespaceMustMatchThePath) {
  Json pod = Json::parse(pod_json(name("pod")));
  pod["metadata"]["namespace"] = "another";
  EXPECT_EQ(post(pods(), pod.dump()).code, 400);
}

TEST_P(PodsConformance, PodStartsPendingWhateverItsStatus) {
  Json pod = Json::parse(pod_json(name("pod")));
  pod["status"]["phase"] = "Running";
  EXPECT_EQ(create(pods(), pod.dump())["status"]["phase"], "Pending");
}

TEST_P(PodsConformance, StatusIsWrittenThroughItsSubresourceOnly) {
  const std::string pod = name("pod");
  create_pod(pod);
  const Json running = {{"status", {{"phase", "Running"}}}};
  merge(pod_path(pod), running);
  EXPECT_EQ(get(pod_path(pod)).body["status"]["phase"], "Pending");
  const Answer patched = merge(pod_path(pod) + "/status", running);
  EXPECT_EQ(patched.code, 200) << patched.text;
  EXPECT_EQ(patched.body["status"]["phase"], "Running");
  Json object = patched.body;
  object["status"]["phase"] = "Succeeded";
  EXPECT_EQ(put(pod_path(pod) + "/status", object).code, 200);
  EXPECT_EQ(get(pod_path(pod) + "/status").body["status"]["phase"], "Succeeded");
}

TEST_P(PodsConformance, StatusSubresourceKeepsTheSpec) {
  const std::string pod = name("pod");
  create_pod(pod);
  const Answer answer = merge(pod_path(pod) + "/status", {{"spec", {{"nodeName", "n1"}}}});
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_FALSE(answer.body["spec"].contains("nodeName"));
}

TEST_P(PodsConformance, SpecOfAPodCannotBeChanged) {
  const std::string pod = name("pod");
  create_pod(pod, {{kMemory, "1"}});
  EXPECT_EQ(merge(pod_path(pod), {{"spec", {{"nodeName", "n1"}}}}).code, 422);
  const auto change = [&](const char* member, const Json& value) {
    Json changed = get(pod_path(pod)).body;
    changed["spec"]["containers"][0][Json::json_pointer(member)] = value;
    return call(Method::kPut, pod_path(pod), changed.dump());
  };
  const Answer more = change("/resources/limits/example.com~1memory", "2");
  EXPECT_EQ(more.code, 422) << more.text;
  const Answer image = change("/image", "another");
  EXPECT_EQ(image.code, 200) << image.text;
}

TEST_P(PodsConformance, NodeCapacityIsWrittenThroughStatus) {
  const std::string node = name("node");
  const Json created = create_node(node, {{kMemory, "8000"}});
  EXPECT_EQ(created["status"]["allocatable"], Json({{kMemory, "8k"}}));
  const Answer patched = merge(node_path(node) + "/status",
                               {{"status", {{"capacity", {{"example.com/core", "800"}}}}}});
  EXPECT_EQ(patched.code, 200) << patched.text;
  EXPECT_EQ(patched.body["status"]["capacity"],
            Json({{kMemory, "8k"}, {"example.com/core", "800"}}));
  EXPECT_EQ(patched.body["status"]["allocatable"], Json({{kMemory, "8k"}}));
  const Answer fraction =
      merge(node_path(node) + "/status", {{"status", {{"capacity", {{kMemory, "1.5"}}}}}});
  EXPECT_EQ(fraction.code, 422);
  EXPECT_NE(fraction.text.find("must be an integer"), std::string::npos) << fraction.text;
}

TEST_P(PodsConformance, NodeStatusIsKeptByUpdatesOfTheNode) {
  const std::string node = name("node");
  create_node(node, {{kMemory, "1"}});
  merge(node_path(node), {{"status", {{"capacity", {{kMemory, "2"}}}}}});
  EXPECT_EQ(get(node_path(node)).body["status"]["capacity"][kMemory], "1");
}

TEST_P(PodsConformance, UnboundPodIsDeletedAtOnce) {
  const std::string pod = name("pod");
  create_pod(pod);
  const Answer answer = call(Method::kDelete, pod_path(pod));
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(get(pod_path(pod)).code, 404);
}

TEST_P(PodsConformance, BoundPodStaysUntilItsKubeletDeletesIt) {
  const std::string pod = name("pod");
  create_pod(pod);
  bind(pod, "n1");
  const Answer answer = call(Method::kDelete, pod_path(pod));
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(answer.body["kind"], "Pod");
  const Json after = get(pod_path(pod)).body;
  EXPECT_TRUE(after["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(after["metadata"]["deletionGracePeriodSeconds"], 30);
  EXPECT_EQ(after["spec"]["nodeName"], "n1");
  EXPECT_EQ(call(Method::kDelete, pod_path(pod)).code, 200);
  EXPECT_EQ(version_of(get(pod_path(pod)).body), version_of(after));
  EXPECT_EQ(remove(pod_path(pod)).code, 200);
  EXPECT_EQ(get(pod_path(pod)).code, 404);
}

TEST_P(PodsConformance, GracePeriodIsTheRequestedOne) {
  const std::string pod = name("pod");
  create_pod(pod);
  bind(pod, "n1");
  call(Method::kDelete, pod_path(pod), R"({"gracePeriodSeconds":7})");
  EXPECT_EQ(get(pod_path(pod)).body["metadata"]["deletionGracePeriodSeconds"], 7);
  call(Method::kDelete, pod_path(pod) + "?gracePeriodSeconds=3");
  EXPECT_EQ(get(pod_path(pod)).body["metadata"]["deletionGracePeriodSeconds"], 3);
}

TEST_P(PodsConformance, FinishedPodIsDeletedAtOnce) {
  const std::string pod = name("pod");
  create_pod(pod);
  bind(pod, "n1");
  merge(pod_path(pod) + "/status", {{"status", {{"phase", "Failed"}}}});
  EXPECT_EQ(call(Method::kDelete, pod_path(pod)).code, 200);
  EXPECT_EQ(get(pod_path(pod)).code, 404);
}

TEST_P(PodsConformance, TerminatingPodCanStillReportItsStatus) {
  const std::string pod = name("pod");
  create_pod(pod);
  bind(pod, "n1");
  call(Method::kDelete, pod_path(pod));
  const Answer answer = merge(pod_path(pod) + "/status", {{"status", {{"phase", "Succeeded"}}}});
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_TRUE(answer.body["metadata"].contains("deletionTimestamp"));
}

}  // namespace
}  // namespace mgpu::test
