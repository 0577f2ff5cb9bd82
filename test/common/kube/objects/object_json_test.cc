#include "common/kube/objects/object_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::string_view kPod = R"({
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {
    "name": "train", "namespace": "ml", "uid": "u-1", "resourceVersion": "77",
    "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-03T03:04:05Z",
    "deletionGracePeriodSeconds": 30,
    "labels": {"app": "a"}, "annotations": {"volumes": "kept", "quote": "\"\u00e9\n"},
    "managedFields": [{"fieldsV1": {"f:metadata": {"f:name": {}}}}]
  },
  "spec": {
    "nodeName": "n1", "schedulerName": "default-scheduler", "priority": -5,
    "volumes": [{"name": "v", "emptyDir": {}}],
    "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
    "containers": [
      {"name": "main", "env": [{"name": "A", "value": "b"}],
       "resources": {"limits": {"x/core": "30", "cpu": 2}, "requests": {"x/core": "30"}}},
      {"name": "log", "resources": {}}
    ]
  },
  "status": {"phase": "Running", "startTime": "2026-01-02T03:04:06Z",
             "nominatedNodeName": "n2", "conditions": [{"type": "Ready"}],
             "initContainerStatuses": [{"name": "side", "containerID": "containerd://aa"}],
             "containerStatuses": [
               {"name": "main", "containerID": "cri-o://bb", "state": {"running": {}}},
               {"name": "log", "state": {"waiting": {}}}]}
})";

TEST(ReadPod, AGracePeriodOfMoreThan32BitsIsNotKnown) {
  std::string text(kPod);
  text.replace(text.find("Seconds\": 30"), std::string_view("Seconds\": 30").size(),
               "Seconds\": 99999999999");
  const auto pod = read_pod(text);
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_TRUE(pod->metadata.being_deleted);
  EXPECT_EQ(pod->metadata.deletion_grace_seconds, std::nullopt);
}

TEST(ReadPod, ReadsEveryFieldThatMgpuUses) {
  const auto pod = read_pod(kPod);
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(to_string(pod->ref()), "ml/train");
  EXPECT_EQ(pod->uid(), PodUid("u-1"));
  EXPECT_EQ(pod->metadata.resource_version, "77");
  EXPECT_TRUE(pod->metadata.being_deleted);
  EXPECT_EQ(pod->metadata.deletion_grace_seconds, 30);
  EXPECT_THAT(pod->metadata.labels, ElementsAre(Pair("app", "a")));
  EXPECT_THAT(pod->metadata.annotations,
              ElementsAre(Pair("quote", "\"\xC3\xA9\n"), Pair("volumes", "kept")));
  EXPECT_EQ(pod->node_name, "n1");
  EXPECT_EQ(pod->scheduler_name, "default-scheduler");
  EXPECT_EQ(pod->priority, -5);
  EXPECT_EQ(pod->phase, "Running");
  EXPECT_EQ(pod->start_time, "2026-01-02T03:04:06Z");
}

TEST(ReadPod, ReadsItsController) {
  const auto controller = [](const std::string& owners) {
    const auto pod = read_pod(R"({"metadata":{"name":"p","ownerReferences":)" + owners + "}}");
    if (!pod) return pod.error().message;
    EXPECT_EQ(pod->metadata.name, "p");
    const auto& found = pod->metadata.controller;
    return found ? found->kind + "/" + found->name : "none";
  };
  EXPECT_FALSE(read_pod(kPod)->metadata.controller);
  EXPECT_EQ(controller(R"([{"kind":"ReplicaSet","name":"web-1","controller":true}])"),
            "ReplicaSet/web-1");
  EXPECT_EQ(controller(R"([{"kind":"Queue","name":"q"},{"kind":"Job","name":"j","controller":true},
                           {"kind":"Job","name":"k","controller":true}])"),
            "Job/j");
  EXPECT_EQ(controller(R"([{"kind":"Job","name":"j","controller":false}])"), "none");
}

TEST(ReadPod, IsReadWhateverItsOwnersAre) {
  for (const std::string owners : {"null", "[]", "7", "{}", "[7]", R"([{"controller":"yes"}])",
                                   R"([{"kind":{},"name":[],"controller":true}])"}) {
    const auto pod = read_pod(R"({"metadata":{"ownerReferences":)" + owners + R"(,"name":"p"}})");
    ASSERT_TRUE(pod) << owners << pod.error().message;
    EXPECT_EQ(pod->metadata.name, "p") << owners;
  }
}

TEST(ReadPod, ReadsTheNodeThatItIsNominatedFor) {
  EXPECT_EQ(read_pod(kPod)->nominated_node, "n2");
  EXPECT_EQ(read_pod(R"({"spec":{}})")->nominated_node, "");
}

TEST(ReadPod, TellsWhetherMoreThanResourcesDecidesBesideWhichPodsItRuns) {
  const struct {
    const char* spec;
    bool constrained;
  } cases[] = {
      {R"({})", false},
      {R"({"volumes":[{"name":"a","configMap":{}},{"name":"b","emptyDir":{}}]})", false},
      {R"({"volumes":[{"name":"a","hostPath":{"path":"/x"}},{"name":"b","projected":{}}]})", false},
      {R"({"volumes":[{"name":"a","secret":{}},{"name":"b","persistentVolumeClaim":{}}]})", true},
      {R"({"volumes":[{"name":"a","ephemeral":{}}]})", true},
      {R"({"resourceClaims":[]})", false},
      {R"({"resourceClaims":[{"name":"c"}],"volumes":[]})", true},
      {R"({"topologySpreadConstraints":[{}]})", true},
      {R"({"affinity":{"nodeAffinity":{"x":[1]},"podAffinity":{},"podAntiAffinity":null}})", false},
      {R"({"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{}]}}})",
       false},
      {R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}})",
       true},
      {R"({"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}})",
       true},
  };
  for (const auto& one : cases) {
    const auto pod = read_pod(std::string(R"({"spec":)") + one.spec + "}");
    ASSERT_TRUE(pod) << pod.error().message;
    EXPECT_EQ(pod->constrained, one.constrained) << one.spec;
    EXPECT_EQ(pod->anti_affinity, std::string_view(one.spec).find("AntiAffinity\":{\"required") !=
                                      std::string_view::npos)
        << one.spec;
  }
}

TEST(ReadPod, ReadsOnWhichNodesThePodMayRun) {
  const auto pod = read_pod(R"({"spec":{"nodeSelector":{"pool":"a"},"tolerations":[
      {"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"},{"operator":"Exists"}],
      "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
      "nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["x","y"]}]},
      {"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]}]}}}}})");
  ASSERT_TRUE(pod) << pod.error().message;
  const NodeRules& rules = pod->node_rules;
  EXPECT_THAT(rules.selector, ElementsAre(Pair("pool", "a")));
  ASSERT_EQ(rules.tolerations.size(), 2u);
  EXPECT_EQ(rules.tolerations[0].key + rules.tolerations[0].value, "kv");
  EXPECT_EQ(rules.tolerations[0].effect, "NoSchedule");
  EXPECT_EQ(rules.tolerations[1].op, "Exists");
  ASSERT_TRUE(rules.required);
  ASSERT_EQ(rules.required->size(), 2u);
  ASSERT_EQ(rules.required->at(0).labels.size(), 1u);
  EXPECT_THAT(rules.required->at(0).labels[0].values, ElementsAre("x", "y"));
  ASSERT_EQ(rules.required->at(1).fields.size(), 1u);
  EXPECT_EQ(rules.required->at(1).fields[0].op, "NotIn");
}

TEST(ReadPod, APodWithoutRulesMayRunOnAnyNode) {
  for (
      const char* spec :
      {R"({})", R"({"nodeSelector":null,"tolerations":null,"affinity":null})",
       R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}})"}) {
    const auto pod = read_pod(std::string(R"({"spec":)") + spec + "}");
    ASSERT_TRUE(pod) << pod.error().message;
    EXPECT_FALSE(pod->node_rules.required) << spec;
    EXPECT_THAT(pod->node_rules.selector, IsEmpty());
  }
}

TEST(ObjectJson, APodIsGatedWhileItHasAGate) {
  for (const char* gates : {"null", "[]"}) {
    EXPECT_FALSE(read_pod(fmt::format(R"({{"spec":{{"schedulingGates":{}}}}})", gates))->gated);
  }
  EXPECT_TRUE(read_pod(R"({"spec":{"schedulingGates":[{"name":"a/b"}]}})")->gated);
}

TEST(ReadPod, TellsWhichContainersUseAPortOfTheNode) {
  const auto pod =
      read_pod(R"({"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]},)"
               R"({"name":"b","ports":[{"containerPort":80},{"containerPort":81,"hostPort":81}]},)"
               R"({"name":"c"}]}})");
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_FALSE(pod->containers[0].host_port);
  EXPECT_TRUE(pod->containers[1].host_port);
  EXPECT_FALSE(pod->containers[2].host_port);
}

TEST(ReadPod, ReadsContainersInTheirOrder) {
  const auto pod = read_pod(kPod);
  ASSERT_TRUE(pod) << pod.error().message;
  ASSERT_EQ(pod->containers.size(), 2u);
  EXPECT_EQ(pod->containers[0].name, "main");
  EXPECT_THAT(pod->containers[0].limits, ElementsAre(Pair("cpu", "2"), Pair("x/core", "30")));
  EXPECT_THAT(pod->containers[0].requests, ElementsAre(Pair("x/core", "30")));
  EXPECT_EQ(pod->containers[1].name, "log");
  EXPECT_THAT(pod->containers[1].limits, IsEmpty());
  ASSERT_EQ(pod->init_containers.size(), 2u);
  EXPECT_TRUE(pod->init_containers[0].restart_always);
  EXPECT_FALSE(pod->init_containers[1].restart_always);
}

TEST(ReadPod, ReadsTheIdsOfInitContainersBeforeTheOthers) {
  const auto pod = read_pod(kPod);
  ASSERT_TRUE(pod) << pod.error().message;
  ASSERT_EQ(pod->container_statuses.size(), 3u);
  EXPECT_EQ(pod->container_statuses[0].name, "side");
  EXPECT_EQ(pod->container_statuses[0].id, "containerd://aa");
  EXPECT_EQ(pod->container_statuses[1].id, "cri-o://bb");
  EXPECT_EQ(pod->container_statuses[2].name, "log");
  EXPECT_EQ(pod->container_statuses[2].id, "");
  EXPECT_FALSE(pod->container_statuses[0].running);
  EXPECT_TRUE(pod->container_statuses[1].running);
  EXPECT_FALSE(pod->container_statuses[2].running);
}

TEST(ReadPod, ReadsAbsentAndNullMembersAsEmpty) {
  for (const std::string_view text :
       {R"({})", R"({"metadata":null,"spec":null,"status":null})",
        R"({"metadata":{"labels":null},"spec":{"containers":null,"priority":null}})",
        R"({"spec":{"containers":[]}})"}) {
    const auto pod = read_pod(text);
    ASSERT_TRUE(pod) << text << ": " << pod.error().message;
    EXPECT_THAT(pod->containers, IsEmpty());
    EXPECT_THAT(pod->metadata.labels, IsEmpty());
    EXPECT_EQ(pod->priority, 0);
    EXPECT_FALSE(pod->metadata.being_deleted);
  }
}

TEST(ReadPod, ReportsThePathOfAValueOfTheWrongType) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"([])", "must be an object"},
      {R"("pod")", "must be an object"},
      {R"({"metadata":5})", "metadata must be an object, is number 5"},
      {R"({"metadata":{"name":true}})", "metadata.name must be a string, is boolean true"},
      {R"({"metadata":{"labels":{"a":1}}})", "metadata.labels.a must be a string, is number 1"},
      {R"({"metadata":{"annotations":[]}})", "metadata.annotations must be an object, is array"},
      {R"({"spec":{"containers":{}}})", "spec.containers must be an array, is object"},
      {R"({"spec":{"containers":["x"]}})", "spec.containers[0] must be an object, is string \"x\""},
      {R"({"spec":{"containers":[{},{"name":1}]}})",
       "spec.containers[1].name must be a string, is number 1"},
      {R"({"spec":{"initContainers":[{"resources":{"limits":{"c":{}}}}]}})",
       "spec.initContainers[0].resources.limits.c must be a string, is object"},
      {R"({"spec":{"containers":[{"resources":{"limits":{"c":0.5}}}]}})",
       "spec.containers[0].resources.limits.c must be a string, is number 0.5"},
      {R"({"spec":{"priority":"high"}})", "spec.priority must be a 32-bit integer, is string"},
      {R"({"spec":{"priority":3000000000}})",
       "spec.priority must be a 32-bit integer, is number 3000000000"},
      {R"({"spec":{"priority":18446744073709551615}})", "spec.priority must be a 32-bit integer"},
      {R"({"status":{"containerStatuses":[{"containerID":{}}]}})",
       "status.containerStatuses[0].containerID must be a string, is object"},
      {R"({"spec":{"priority":1.5}})", "spec.priority must be a 32-bit integer, is number 1.5"},
      {R"({"spec":{"priority":1e999}})", "spec.priority must be a 32-bit integer, is number 1e999"},
      {R"({"spec":{"containers":[null]}})", "spec.containers[0] must be an object, is null"},
      {R"({"metadata":{"labels":{"a":null}}})", "metadata.labels.a must be a string, is null"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto pod = read_pod(text);
    ASSERT_FALSE(pod) << text;
    EXPECT_THAT(pod.error().message, HasSubstr(sentence)) << text;
  }
}

// kube-apiserver returns managedFields as a client has sent them. A pod whose touch could not be
// read would keep the extender from starting.
TEST(ReadPod, BytesThatAreNotUtf8AreReplaced) {
  const auto pod = read_pod("{\"metadata\":{\"name\":\"a\xff\",\"managedFields\":[\"\xfe\"]}}");
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->metadata.name, "a?");
}

TEST(ReadPod, RefusesTextThatIsNotJson) {
  for (const std::string_view text :
       {"", " ", "{", "}", R"({"spec":})", R"({"spec":{},})", R"({"a":1,})", R"({} x)", R"({} {})",
        "nul", "garbage", R"({"metadata":nul})", R"({"spec":{"priority":tru}})",
        R"({"metadata":{"name":"\x"}})", R"({"metadata":{"name":"\ud800"}})", "{\"a\":\"\n\"}",
        R"({"metadata":{"name" "a"}})", R"({"metadata":{"name":"a" "uid":"b"}})",
        R"({"metadata":{"name":"a"})"}) {
    const auto pod = read_pod(text);
    ASSERT_FALSE(pod) << text;
    EXPECT_THAT(pod.error().message, HasSubstr("not JSON")) << text;
  }
}

TEST(ReadPod, RefusesTextOfAnyLengthAndDepthWithAShortError) {
  const std::string open(1'000'000, '[');
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += R"({"a":)";
  const std::string long_name(1'000'000, 'n');
  for (const std::string& text :
       {open, objects, R"({"skipped":)" + open, R"({"metadata":{"annotations":)" + objects,
        R"({"metadata":{"labels":{")" + long_name + R"(":1}}})",
        R"({"metadata":{"name":[")" + long_name + R"("]}})", "{" + long_name}) {
    const auto pod = read_pod(text);
    ASSERT_FALSE(pod);
    EXPECT_LT(pod.error().message.size(), 400u);
  }
}

// A tenant may nest managedFields as deep as kube-apiserver allows, and may write values there that
// some parsers refuse.
TEST(ReadPod, SkipsUnusedMembersWhateverTheirValue) {
  for (const std::size_t depth : {120u, 1'000u, 9'000u, 10'100u, 1'000'000u}) {
    const auto pod = read_pod(R"({"skipped":)" + std::string(depth, '[') + std::string(depth, ']') +
                              R"(,"metadata":{"name":"a"}})");
    ASSERT_TRUE(pod) << depth;
    EXPECT_EQ(pod->metadata.name, "a");
  }
  for (const std::string_view odd :
       {"1e999", "-1e999", "18446744073709551616", "123456789012345678901234567890", "1.5",
        R"("\ud800")", R"({"\udfff":1})", R"([[{"a":[1e400,"\ud800"]}]])"}) {
    const auto pod = read_pod(R"({"metadata":{"managedFields":[{"fieldsV1":)" + std::string(odd) +
                              R"(}],"name":"a"},"spec":{"containers":[{"x":)" + std::string(odd) +
                              R"(,"name":"c"}]}})");
    ASSERT_TRUE(pod) << odd << ": " << pod.error().message;
    EXPECT_EQ(pod->metadata.name, "a");
    EXPECT_EQ(pod->containers.at(0).name, "c");
  }
}

TEST(ReadPod, ReportsDeepNestingInAUsedMemberAsAWrongType) {
  for (const std::size_t depth : {50u, 100u, 9'000u, 1'000'000u}) {
    const auto pod = read_pod(R"({"metadata":{"labels":)" + std::string(depth, '[') +
                              std::string(depth, ']') + "}}");
    ASSERT_FALSE(pod);
    EXPECT_EQ(pod.error().message, "metadata.labels must be an object, is array") << depth;
  }
}

TEST(ReadPod, UsesTheLastOfEqualMembers) {
  const auto pod = read_pod(R"({"metadata":{"name":"a","name":"b"}})");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->metadata.name, "b");
}

TEST(ReadPod, TakesTimeLinearInTheNumberOfContainers) {
  std::string text = R"({"spec":{"containers":[{})";
  for (int i = 0; i < 300'000; ++i) text += ",{}";
  const auto pod = read_pod(text + "]}}");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->containers.size(), 300'001u);
}

TEST(ReadNode, ReadsEveryFieldThatMgpuUses) {
  const auto node = read_node(R"({"metadata":{"name":"n","annotations":{"c":"[]"}},
      "spec":{"unschedulable":true,"podCIDR":"10.0.0.0/24"},
      "status":{"capacity":{"x":"8k"},"allocatable":{"x":"7k"},"images":[{"names":["a"]}],
        "conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"m",
                       "lastHeartbeatTime":"2026-01-02T03:04:05Z"},{"type":"Bare"}]}})");
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(node->metadata.name, "n");
  EXPECT_THAT(node->metadata.annotations, ElementsAre(Pair("c", "[]")));
  EXPECT_TRUE(node->unschedulable);
  EXPECT_THAT(node->capacity, ElementsAre(Pair("x", "8k")));
  EXPECT_THAT(node->allocatable, ElementsAre(Pair("x", "7k")));
  EXPECT_THAT(node->conditions, ElementsAre(Condition{"Ready", "True", "KubeletReady", "m"},
                                            Condition{"Bare", "", "", ""}));
}

TEST(ReadNode, ReportsThePathOfAValueOfTheWrongType) {
  const auto node = read_node(R"({"spec":{"unschedulable":"yes"}})");
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().message, R"(spec.unschedulable must be true or false, is string "yes")");
  const auto condition = read_node(R"({"status":{"conditions":[{"status":true}]}})");
  ASSERT_FALSE(condition);
  EXPECT_EQ(condition.error().message,
            "status.conditions[0].status must be a string, is boolean true");
}

TEST(ReadPodDisruptionBudget, DistinguishesNoSelectorFromAnEmptyOne) {
  const auto none = read_pod_disruption_budget(R"({"spec":{}})");
  const auto null = read_pod_disruption_budget(R"({"spec":{"selector":null}})");
  const auto empty = read_pod_disruption_budget(R"({"spec":{"selector":{}}})");
  ASSERT_TRUE(none && null && empty);
  EXPECT_FALSE(none->selector.has_value());
  EXPECT_FALSE(null->selector.has_value());
  EXPECT_TRUE(empty->selector.has_value());
}

TEST(ReadPodDisruptionBudget, ReadsEveryFieldThatMgpuUses) {
  const auto budget = read_pod_disruption_budget(R"({"metadata":{"namespace":"ml"},
      "spec":{"minAvailable":"50%","selector":{"matchLabels":{"app":"a"},
        "matchExpressions":[{"key":"k","operator":"In","values":["x","y"]},
                            {"key":"z","operator":"Exists"}]}},
      "status":{"disruptionsAllowed":2}})");
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_EQ(budget->metadata.name_space, "ml");
  EXPECT_EQ(budget->disruptions_allowed, 2);
  ASSERT_EQ(budget->selector->match_expressions.size(), 2u);
  EXPECT_THAT(budget->selector->match_labels, ElementsAre(Pair("app", "a")));
  EXPECT_EQ(budget->selector->match_expressions[0].op, "In");
  EXPECT_THAT(budget->selector->match_expressions[0].values, ElementsAre("x", "y"));
  EXPECT_EQ(budget->selector->match_expressions[1].key, "z");
}

TEST(ReadListPage, ReturnsTheTextOfEachItem) {
  const auto page = read_list_page(R"( {"kind":"PodList","metadata":{"resourceVersion":"12",
      "continue":"abc\u003d","remainingItemCount":3}, "items" : [ {"a":"]}\""} , {"b":[{}]} ] } )");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->resource_version, "12");
  EXPECT_EQ(page->continue_token, "abc=");
  EXPECT_THAT(page->items, ElementsAre(R"({"a":"]}\""})", R"({"b":[{}]})"));
}

TEST(ReadListPage, ReadsNoItemsFromNullAndFromAnEmptyArray) {
  for (const std::string_view items : {"null", "[]", "[ ]"}) {
    const auto page = read_list_page(R"({"metadata":{"resourceVersion":"1"},"items":)" +
                                     std::string(items) + "}");
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_THAT(page->items, IsEmpty());
    EXPECT_EQ(page->continue_token, "");
  }
}

TEST(ReadListPage, RefusesTextThatIsNotAList) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "not JSON"},
      {"<html>", "it begins with \"<html>\""},
      {"[]", "the JSON text must be an object"},
      {"{}", "resourceVersion of the list is missing"},
      {R"({"metadata":{"resourceVersion":""},"items":[]})", "is missing"},
      {R"({"metadata":{"resourceVersion":"1"}})", "items must be an array"},
      {R"({"metadata":{"resourceVersion":"1"},"items":{}})", "items must be an array"},
      {R"({"metadata":{"resourceVersion":"1"},"items":[{},7]})", "items[1] must be an object"},
      {R"({"metadata":{"resourceVersion":1},"items":[]})", "resourceVersion must be a string"},
      {R"({"metadata":[],"items":[]})", "metadata must be an object"},
      {R"({"metadata":{"resourceVersion":"1"},"items":[{},]})", "not JSON"},
      {R"({"metadata":{"resourceVersion":"1"},"items":[{])", "not JSON"},
      {R"({"metadata":{"resourceVersion":"1"},"items":[{}]} {})", "not JSON"},
      {R"({"metadata":{"resourceVersion":"1"},"items":["\)", "not JSON"},
      {R"({"metadata":{"resourceVersion":"1"},"items":[null]})", "items[0] must be an object"},
      {R"({"metadata":{"resourceVersion":"1","continue":"\x"},"items":[]})", "not JSON"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto page = read_list_page(text);
    ASSERT_FALSE(page) << text;
    EXPECT_THAT(page.error().message, HasSubstr(sentence)) << text;
  }
}

// Each item is read by itself: an unreadable one does not hide the others.
TEST(ReadListPage, SeparatesItemsOfAnyDepth) {
  const std::string deep = R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const auto page = read_list_page(R"({"metadata":{"resourceVersion":"1"},"items":[{"b":1},)" +
                                   deep + R"(,{"c":"}\"]"},{"bad":7 8}]})");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(page->items, ElementsAre(R"({"b":1})", deep, R"({"c":"}\"]"})", R"({"bad":7 8})"));
}

// Go writes managedFields exactly as a tenant sent them.
TEST(ReadListPage, ReplacesBytesThatAreNotUtf8) {
  const auto page = read_list_page(
      "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"a\":\"\xff\xc3\xa9\xc3\"},{}]}");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(page->items, ElementsAre("{\"a\":\"?\xc3\xa9?\"}", "{}"));
  const auto line = read_watch_line(
      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"a\":\"\xff\"}}}");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->resource_version, "7");
}

TEST(ReadLineBeginning, NamesTheObjectOfALine) {
  const auto pod = read_line_beginning(
      R"({"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a",)"
      R"("namespace":"n","uid":"u","resourceVersion":"17","labels":{"resourceVersion":"99)");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->name, "n/a");
  EXPECT_EQ(pod->resource_version, "17");
}

TEST(ReadLineBeginning, IsNoneWhereTheLineNamesNoObject) {
  for (const char* const line :
       {"", "{garbage", R"({"type":"ADDED","object":{}})", R"({"metadata":{"name":"a"}})",
        R"({"metadata":{"name":"a","resourceVersion":"x"}})",
        R"({"metadata":{"resourceVersion":"1"}})"}) {
    EXPECT_FALSE(read_line_beginning(line)) << line;
  }
}

TEST(ReadListPage, RefusesDeepNesting) {
  for (const char bracket : {'[', '{'}) {
    const auto page = read_list_page(R"({"items":)" + std::string(1'000'000, bracket));
    ASSERT_FALSE(page);
    EXPECT_LT(page.error().message.size(), 400u);
  }
}

TEST(ReadWatchLine, ReadsEachKind) {
  using Kind = WatchLine::Kind;
  const std::pair<std::string, Kind> cases[] = {{"ADDED", Kind::kAdded},
                                                {"MODIFIED", Kind::kModified},
                                                {"DELETED", Kind::kDeleted},
                                                {"BOOKMARK", Kind::kBookmark}};
  for (const auto& [type, kind] : cases) {
    const std::string object = R"({"metadata":{"name":"a","resourceVersion":"9"}})";
    const auto line = read_watch_line(R"({"type":")" + type + R"(","object":)" + object + "}");
    ASSERT_TRUE(line) << line.error().message;
    EXPECT_EQ(line->kind, kind);
    EXPECT_EQ(line->object, object);
    EXPECT_EQ(line->resource_version, "9");
  }
}

TEST(ReadWatchLine, ReturnsTheStatusOfAnError) {
  const auto line = read_watch_line(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}})");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->kind, WatchLine::Kind::kError);
  const Status status = read_status(line->object);
  EXPECT_EQ(status.code, 410);
  EXPECT_EQ(status.reason, "Expired");
  EXPECT_EQ(status.message, "old");
}

TEST(ReadWatchLine, RefusesTextThatIsNotAnEvent) {
  for (const std::string& text :
       {std::string(""), std::string("{}"), std::string("null"), std::string(R"({"type":"ADDED"})"),
        std::string(R"({"type":"added","object":{}})"), std::string(R"({"type":1,"object":{}})"),
        std::string(R"({"type":"ADDED","object":[]})"),
        std::string(R"({"type":"ADDED","object":{})"),
        std::string(R"({"type":"ADDED","object":{"metadata":5}})"),
        std::string(R"({"type":"ADDED","object":{"metadata":{"resourceVersion":5}}})"),
        R"({"type":"ADDED","object":)" + std::string(1'000'000, '{')}) {
    const auto line = read_watch_line(text);
    ASSERT_FALSE(line) << text.substr(0, 80);
    EXPECT_FALSE(line.error().message.empty());
    EXPECT_LT(line.error().message.size(), 400u);
  }
}

TEST(ReadStatus, IsEmptyForTextThatIsNotAStatus) {
  for (const std::string_view text : {"", "<html>", "[]", R"({"code":"x"})"}) {
    EXPECT_EQ(read_status(text).code, 0) << text;
  }
}

// Every prefix of a real text, and the text with any byte changed, gives a result.
TEST(ReadPod, ReturnsAResultForAnyBytes) {
  const std::string text(kPod);
  for (std::size_t i = 0; i < text.size(); ++i) {
    (void)read_pod(text.substr(0, i));
    for (const char c : {'"', '{', ']', '\\', '\0', '\xff', '9'}) {
      std::string changed = text;
      changed[i] = c;
      (void)read_pod(changed);
      (void)read_watch_line(R"({"type":"ADDED","object":)" + changed + "}");
      (void)read_list_page(R"({"metadata":{"resourceVersion":"1"},"items":[)" + changed + "]}");
    }
  }
}

}  // namespace
}  // namespace mgpu::kube
