// The writes of the device plugin: annotation and status of its node, events, evictions.
#include <string>

#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

constexpr char kStrategic[] = "application/strategic-merge-patch+json";
constexpr char kTime[] = "2026-01-02T03:04:05Z";
constexpr char kLater[] = "2026-01-02T03:05:00Z";

class NodeAgentConformance : public Conformance {
 protected:
  Answer send(const kube::Request& request) {
    return call(request.method, request.target, request.body, request.content_type);
  }
  Json condition(const Json& node, const std::string& type) {
    const Json::json_pointer conditions("/status/conditions");
    for (const Json& found : node.value(conditions, Json::array())) {
      if (found["type"] == type) return found;
    }
    return nullptr;
  }
  kube::NodeStatusChange ready(const std::string& status, const std::string& transition) {
    return {.capacity = {},
            .condition = kube::Condition{"MGPUReady", status, "CardsReady", "4 of 4 cards"},
            .heartbeat_time = kLater,
            .transition_time = transition};
  }
  std::string running_pod(const std::string& pod) {
    Json object = Json::parse(pod_json(pod));
    object["metadata"]["labels"] = {{"app", pod}};
    const Json created = create(pods(), object.dump());
    merge(pod_path(pod) + "/status", {{"status", {{"phase", "Running"}}}});
    return created["metadata"]["uid"];
  }
  Answer evict(const std::string& pod, const std::string& uid) {
    return send(kube::evict({name_space(), pod}, PodUid(uid)));
  }
};
INSTANTIATE_TEST_SUITE_P(Server, NodeAgentConformance, testing::Values("memory", "real"),
                         [](const auto& param_of) { return param_of.param; });

TEST_P(NodeAgentConformance, SetsTheTaintsOfTheNodeThatWasRead) {
  const std::string node = name("node");
  create_node(node);
  const auto read = kube::read_node(get(node_path(node)).body.dump());
  ASSERT_TRUE(read);
  auto taints = read->taints;  // kube-apiserver may have added one
  taints.push_back({"example.com/a", "", "PreferNoSchedule", ""});
  const Answer answer = send(kube::set_node_taints(*read, taints));
  EXPECT_EQ(answer.code, 200) << answer.text;
  const auto written = kube::read_node(get(node_path(node)).body.dump());
  ASSERT_TRUE(written);
  EXPECT_EQ(written->taints, taints);
  EXPECT_EQ(send(kube::set_node_taints(*read, {})).code, 409) << "it has changed since";
}

TEST_P(NodeAgentConformance, AnnotatesANodeAndKeepsOtherAnnotations) {
  const std::string node = name("node");
  create_node(node);
  merge(node_path(node), {{"metadata", {{"annotations", {{"other", "1"}}}}}});
  const Answer answer = send(kube::annotate_node(NodeName(node), "example.com/cards", "[\"a\"]"));
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(answer.body["metadata"]["annotations"]["example.com/cards"], "[\"a\"]");
  EXPECT_EQ(answer.body["metadata"]["annotations"]["other"], "1");
}

TEST_P(NodeAgentConformance, FindsConditionsByTheirType) {
  const std::string node = name("node");
  create_node(node);
  const Json kubelets = {{"type", "DiskPressure"}, {"status", "False"}};
  merge(node_path(node) + "/status", {{"status", {{"conditions", Json::array({kubelets})}}}});
  send(kube::change_node_status(NodeName(node), ready("True", kTime)));
  const Json after = get(node_path(node)).body;
  EXPECT_EQ(condition(after, "DiskPressure")["status"], "False") << after;
  EXPECT_EQ(condition(after, "MGPUReady")["status"], "True");
  EXPECT_EQ(condition(after, "MGPUReady")["lastTransitionTime"], kTime);
}

TEST_P(NodeAgentConformance, KeepsMembersOfAConditionThatAChangeDoesNotName) {
  const std::string node = name("node");
  create_node(node);
  send(kube::change_node_status(NodeName(node), ready("True", kTime)));
  auto change = ready("True", "");
  change.condition->reason = "CardSick";
  send(kube::change_node_status(NodeName(node), change));
  const Json found = condition(get(node_path(node)).body, "MGPUReady");
  EXPECT_EQ(found["reason"], "CardSick");
  EXPECT_EQ(found["lastTransitionTime"], kTime);
  EXPECT_EQ(found["lastHeartbeatTime"], kLater);
}

TEST_P(NodeAgentConformance, DeletesAConditionByADirective) {
  const std::string node = name("node");
  create_node(node);
  send(kube::change_node_status(NodeName(node), ready("True", kTime)));
  const Json patch = {
      {"status", {{"conditions", {{{"type", "MGPUReady"}, {"$patch", "delete"}}}}}}};
  const Answer answer = call(Method::kPatch, node_path(node) + "/status", patch.dump(), kStrategic);
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(condition(answer.body, "MGPUReady"), nullptr);
}

TEST_P(NodeAgentConformance, RefusesAConditionWithoutAType) {
  const std::string node = name("node");
  create_node(node);
  send(kube::change_node_status(NodeName(node), ready("True", kTime)));
  const Json patch = {{"status", {{"conditions", {{{"status", "True"}}}}}}};
  const Answer answer = call(Method::kPatch, node_path(node) + "/status", patch.dump(), kStrategic);
  EXPECT_EQ(answer.code, 500) << answer.text;
}

TEST_P(NodeAgentConformance, ChangesOneCapacityAndKeepsTheOthers) {
  const std::string node = name("node");
  create_node(node, {{"cpu", "8"}});
  kube::NodeStatusChange change = ready("True", kTime);
  change.capacity = {{"example.com/memory", 130040}};
  const Answer answer = send(kube::change_node_status(NodeName(node), change));
  EXPECT_EQ(answer.code, 200) << answer.text;
  EXPECT_EQ(answer.body["status"]["capacity"]["example.com/memory"], "130040");
  EXPECT_EQ(answer.body["status"]["capacity"]["cpu"], "8");
  EXPECT_EQ(condition(answer.body, "MGPUReady")["status"], "True");
}

TEST_P(NodeAgentConformance, ListsOneNodeByItsName) {
  const std::string node = name("node");
  create_node(node);
  create_node(name("node"));
  const Answer found = send(kube::list(kube::one_node(NodeName(node)), 10, ""));
  ASSERT_EQ(found.body["items"].size(), 1U) << found.text;
  EXPECT_EQ(found.body["items"][0]["metadata"]["name"], node);
  const Answer none = send(kube::list(kube::one_node(NodeName(name("none"))), 10, ""));
  EXPECT_EQ(none.body["items"].size(), 0U) << none.text;
}

TEST_P(NodeAgentConformance, CountsAnEventOnItsObject) {
  const kube::EventObject event{.name = name("event"),
                                .name_space = name_space(),
                                .involved_kind = "Pod",
                                .involved_namespace = name_space(),
                                .involved_name = "p",
                                .involved_uid = "u-1",
                                .warning = true,
                                .reason = "MGPUCardUnhealthy",
                                .message = "card 3 is sick",
                                .component = "mgpu-device-plugin",
                                .host = "n1",
                                .time = kTime};
  const Answer created = send(kube::create_event(event));
  ASSERT_EQ(created.code, 201) << created.text;
  EXPECT_EQ(created.body["involvedObject"]["uid"], "u-1");
  EXPECT_EQ(created.body["source"]["host"], "n1");
  const Answer counted = send(kube::count_event(name_space(), event.name, 2, kLater));
  EXPECT_EQ(counted.code, 200) << counted.text;
  EXPECT_EQ(counted.body["count"], 2);
  EXPECT_EQ(counted.body["lastTimestamp"], kLater);
  EXPECT_EQ(counted.body["firstTimestamp"], kTime);
  EXPECT_EQ(send(kube::count_event(name_space(), name("none"), 2, kLater)).code, 404);
  EXPECT_EQ(send(kube::create_event(event)).code, 409);
}

TEST_P(NodeAgentConformance, KeepsEventsOfNodesInDefault) {
  const kube::EventObject event{.name = name("event"),
                                .name_space = "default",
                                .involved_kind = "Node",
                                .involved_namespace = "",
                                .involved_name = "n1",
                                .involved_uid = "n1",
                                .warning = false,
                                .reason = "MGPUReady",
                                .message = "m",
                                .component = "mgpu-device-plugin",
                                .host = "n1",
                                .time = kTime};
  const Answer created = send(kube::create_event(event));
  EXPECT_EQ(created.code, 201) << created.text;
  EXPECT_EQ(created.body["type"], "Normal");
  remove("/api/v1/namespaces/default/events/" + event.name);
}

TEST_P(NodeAgentConformance, EvictsThePodOfThisUid) {
  const std::string pod = name("pod");
  const std::string uid = running_pod(pod);
  const Answer another = evict(pod, "another");
  EXPECT_EQ(another.code, 409) << another.text;
  EXPECT_EQ(get(pod_path(pod)).code, 200);
  const Answer evicted = evict(pod, uid);
  EXPECT_EQ(evicted.code, 201) << evicted.text;
  EXPECT_EQ(get(pod_path(pod)).code, 404);
  EXPECT_EQ(evict(pod, uid).code, 404);
}

TEST_P(NodeAgentConformance, PreemptsThePodOfThisUid) {
  const std::string pod = name("pod");
  create(pods(), pod_json(pod));
  const auto read = kube::read_pod(get(pod_path(pod)).body.dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(send(kube::nominate(*read, NodeName("n1"))).code, 200);
  EXPECT_EQ(get(pod_path(pod)).body["status"]["nominatedNodeName"], "n1");
  EXPECT_EQ(send(kube::nominate(*read, NodeName("n2"))).code, 409) << "it has changed since";
  kube::Pod newest = *read;
  newest.metadata.resource_version.clear();
  EXPECT_EQ(send(kube::nominate(newest, NodeName())).code, 200);
  EXPECT_FALSE(get(pod_path(pod)).body["status"].contains("nominatedNodeName"));

  const PodRef ref{name_space(), pod};
  const auto mark = [&](const char* uid) {
    return send(kube::mark_preempted(ref, PodUid(uid), "for another", kLater));
  };
  EXPECT_EQ(mark("another").code, 422);
  EXPECT_EQ(mark(read->metadata.uid.c_str()).code, 200);
  const Json marked = get(pod_path(pod)).body["status"]["conditions"];
  ASSERT_FALSE(marked.empty());
  EXPECT_EQ(marked.back()["type"], "DisruptionTarget");
  EXPECT_EQ(marked.back()["reason"], "PreemptionByScheduler");
  EXPECT_EQ(send(kube::delete_pod(ref, PodUid("another"))).code, 409);
  EXPECT_EQ(get(pod_path(pod)).code, 200);
  EXPECT_EQ(send(kube::delete_pod(ref, read->uid())).code, 200);
  EXPECT_EQ(get(pod_path(pod)).code, 404) << "a pod without a node ends at once";
}

TEST_P(NodeAgentConformance, RefusesAnEvictionThatABudgetDoesNotAllow) {
  const std::string pod = name("pod");
  const std::string uid = running_pod(pod);
  const std::string budgets =
      "/apis/policy/v1/namespaces/" + name_space() + "/poddisruptionbudgets";
  const Json selector = {{"matchLabels", {{"app", pod}}}};
  const std::string budget = name("budget");
  create(budgets, Json{{"metadata", {{"name", budget}}},
                       {"spec", {{"minAvailable", 1}, {"selector", selector}}}}
                      .dump());
  const Answer refused = evict(pod, uid);
  EXPECT_EQ(refused.code, 429) << refused.text;
  EXPECT_EQ(get(pod_path(pod)).code, 200);
  const Json allow = {{"disruptionsAllowed", 1}, {"observedGeneration", 1}};
  merge(budgets + "/" + budget + "/status", {{"status", allow}});
  const Answer evicted = evict(pod, uid);
  EXPECT_EQ(evicted.code, 201) << evicted.text;
  EXPECT_EQ(get(pod_path(pod)).code, 404);
  EXPECT_EQ(get(budgets + "/" + budget).body["status"]["disruptionsAllowed"], 0);
}

}  // namespace
}  // namespace mgpu::test
