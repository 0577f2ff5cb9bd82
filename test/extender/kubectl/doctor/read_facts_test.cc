#include "extender/kubectl/doctor/read_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::test {
namespace {

using namespace kubectl;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(DoctorFacts, CountsTheExtendersThatBind) {
  const std::string two = R"(apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "http://127.0.0.1:32766/gpushare-scheduler", filterVerb: filter, bindVerb: bind}
- {urlPrefix: "http://127.0.0.1:9800/mgpu", filterVerb: filter, bindVerb: bind}
- {urlPrefix: "http://127.0.0.1:1/ranks", prioritizeVerb: prioritize}
)";
  EXPECT_THAT(kubectl::binding_extenders(two),
              testing::ElementsAre("http://127.0.0.1:32766/gpushare-scheduler",
                                   "http://127.0.0.1:9800/mgpu"));
  EXPECT_THAT(kubectl::binding_extenders("{KubeSchedulerConfiguration: [&"), testing::IsEmpty());
  EXPECT_THAT(kubectl::binding_extenders("kind: Pod\nextenders: [{bindVerb: bind}]"),
              testing::IsEmpty());
  const nlohmann::json map = {{"metadata", {{"name", "s"}, {"namespace", "n"}}},
                              {"data", {{"a.yaml", two}, {"b", "x"}}}};
  const auto config = kubectl::read_scheduler_config(map.dump());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->object, "n/s");
  EXPECT_EQ(config->binders.size(), 2U);
}

TEST(ReadFacts, ReadTheVersionOfTheServer) {
  const auto version = read_server_version(R"({"major": "1", "gitVersion": "v1.29.4-gke.10"})");
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, (Version{1, 29, 4}));
  EXPECT_EQ(version->text, "v1.29.4-gke.10");
  EXPECT_EQ(read_server_version(R"({"gitVersion": "x"})").error().message,
            "gitVersion must be a version such as \"v1.36.3\", is \"x\"");
}

TEST(ReadFacts, ParseVersions) {
  EXPECT_EQ(parse_version("0.1.0"), (Version{0, 1, 0}));
  EXPECT_EQ(parse_version("v1.36.3+k3s1"), (Version{1, 36, 3}));
  for (const char* bad :
       {"", "v", "latest", "1.2", "1.2.x", "1.2.3.4", "1.-2.3", "99999999999.0.0"}) {
    EXPECT_EQ(parse_version(bad), std::nullopt) << bad;
  }
}

TEST(ReadFacts, ReadPodsOfPrograms) {
  const auto pod = read_program_pod(R"({
    "metadata": {"name": "e-1", "namespace": "kube-system",
                 "deletionTimestamp": "2026-01-01T00:00:00Z",
                 "labels": {"app.kubernetes.io/name": "mgpu",
                            "app.kubernetes.io/component": "extender"}},
    "spec": {"nodeName": "n1", "serviceAccountName": "sa",
             "containers": [{"name": "a", "image": "registry:5000/mgpu-extender:0.1.0@sha256:12",
                             "args": ["--port=1", "--leader-elect"]}]},
    "status": {"phase": "Running", "podIP": "10.0.0.1",
               "conditions": [{"type": "Ready", "status": "True"}],
               "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}})");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->ref, (PodRef{"kube-system", "e-1"}));
  EXPECT_EQ(pod->name, "mgpu");
  EXPECT_EQ(pod->component, "extender");
  EXPECT_EQ(pod->version, "0.1.0");
  EXPECT_EQ(pod->node, "n1");
  EXPECT_EQ(pod->service_account, "sa");
  EXPECT_THAT(pod->arguments, ElementsAre("--port=1", "--leader-elect"));
  EXPECT_EQ(pod->address, "10.0.0.1");
  EXPECT_EQ(pod->waiting, "CrashLoopBackOff");
  EXPECT_TRUE(pod->ready);
  EXPECT_TRUE(pod->being_deleted);
}

TEST(ReadFacts, AnImageMayHaveNoTag) {
  for (const char* image : {"registry:5000/mgpu-extender", "mgpu-extender@sha256:12", ""}) {
    const auto pod = read_program_pod(std::string(R"({"metadata": {"name": "e"},
      "spec": {"containers": [{"image": ")") +
                                      image + R"("}]}})");
    ASSERT_TRUE(pod);
    EXPECT_THAT(pod->version, IsEmpty()) << image;
  }
}

TEST(ReadFacts, ReadLeases) {
  const auto lease = read_lease_facts(
      R"({"spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 15,
          "renewTime": "1970-01-01T00:01:40.000000Z"}})");
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->holder, "a_1");
  EXPECT_EQ(lease->duration_seconds, 15);
  EXPECT_EQ(lease->renewed, Time(seconds(100)));
  const auto plain = read_lease_facts(R"({"spec": {"holderIdentity": "a_1"}})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->duration_seconds, std::nullopt);
  EXPECT_EQ(plain->renewed, std::nullopt);
}

TEST(ReadFacts, OnlyReadyAddressesOfSlicesCount) {
  const auto slice = read_slice(R"({"endpoints": [
    {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
    {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
    {"addresses": ["10.0.0.3"]}]})");
  ASSERT_TRUE(slice);
  EXPECT_THAT(slice->addresses, ElementsAre("10.0.0.1", "10.0.0.3"));
}

TEST(ReadFacts, ReadPolicyBindings) {
  const auto binding = read_policy_binding(
      R"({"spec": {"policyName": "p", "validationActions": ["Audit", "Deny"]}})");
  ASSERT_TRUE(binding);
  EXPECT_EQ(binding->policy, "p");
  EXPECT_TRUE(binding->denies);
  EXPECT_FALSE(read_policy_binding(R"({"spec": {"validationActions": ["Warn"]}})")->denies);
}

TEST(ReadFacts, ReadNodes) {
  const auto node = read_checked_node(R"({
    "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "status": {"capacity": {"x": "1"}, "allocatable": {"x": "0"},
               "conditions": [{"type": "MGPUReady", "status": "False", "reason": "R",
                               "message": "M"}],
               "nodeInfo": {"kubeletVersion": "v1.36.3"}}})");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->name, "n");
  EXPECT_THAT(node->labels, ElementsAre(Pair("a", "b")));
  EXPECT_THAT(node->annotations, ElementsAre(Pair("c", "d")));
  EXPECT_THAT(node->capacity, ElementsAre(Pair("x", "1")));
  EXPECT_THAT(node->allocatable, ElementsAre(Pair("x", "0")));
  EXPECT_THAT(node->conditions, ElementsAre(kube::Condition{"MGPUReady", "False", "R", "M"}));
  EXPECT_EQ(node->kubelet_version, "v1.36.3");
}

TEST(ReadFacts, ReadWhyAPodWaits) {
  const auto pod = read_gpu_pod(R"({
    "metadata": {"name": "p", "namespace": "d", "creationTimestamp": "1970-01-01T00:01:40Z"},
    "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"},
      {"type": "PodScheduled", "status": "False", "reason": "SchedulerError",
       "message": "refused"}]}})");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->created, Time(seconds(100)));
  EXPECT_EQ(pod->unscheduled_reason, "SchedulerError");
  EXPECT_EQ(pod->unscheduled_message, "refused");
}

TEST(ReadFacts, ReadFeatureGates) {
  const auto gates =
      read_feature_gates(R"({"kubeletconfig": {"featureGates": {"A": true, "B": false}, "x": 1}})");
  ASSERT_TRUE(gates);
  EXPECT_THAT(*gates, ElementsAre(Pair("A", true), Pair("B", false)));
  EXPECT_THAT(*read_feature_gates(R"({"kubeletconfig": {}})"), IsEmpty());
}

TEST(ReadFacts, ReadTheAnswersOfTheExtender) {
  const auto readiness = read_readiness(
      R"({"ready": false, "waiting_for": ["nodes"], "api_server": "no answer for 3 s",
          "without": ["1 pod that cannot be changed"], "unreadable_objects": {"pods": 2}})");
  ASSERT_TRUE(readiness);
  EXPECT_FALSE(readiness->ready);
  EXPECT_THAT(readiness->waiting_for, ElementsAre("nodes"));
  EXPECT_THAT(readiness->without, ElementsAre("1 pod that cannot be changed"));
  EXPECT_EQ(readiness->api_server, "no answer for 3 s");
  EXPECT_THAT(readiness->unreadable, ElementsAre(Pair("pods", 2)));
  const auto cluster = read_inspected_cluster(
      R"({"totals": {"podsDrifting": 1, "cardsOverfull": 2}, "nodes": [],
          "drift": [{"namespace": "d", "name": "p", "node": "n", "drift": "BindingWithoutCards",
                     "driftDetail": "card 7"}]})");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->cards_overfull, 2);
  ASSERT_EQ(cluster->drift.size(), 1U);
  EXPECT_EQ(cluster->drift[0].pod, (PodRef{"d", "p"}));
  EXPECT_EQ(cluster->drift[0].kind, "BindingWithoutCards");
  EXPECT_EQ(cluster->drift[0].detail, "card 7");
  EXPECT_EQ(*read_program_version(R"({"version": "0.1.0"})"), "0.1.0");
}

TEST(ReadFacts, AWrongTypeIsNamed) {
  EXPECT_THAT(read_readiness(R"({"ready": "yes"})").error().message, HasSubstr("ready must be"));
  EXPECT_FALSE(read_lease_facts("[]"));
  EXPECT_FALSE(read_gpu_pod("{"));
}

// --- metrics -------------------------------------------------------------------------------------

TEST(ParseMetrics, ReadsNamesLabelsAndValues) {
  const auto samples = parse_metrics(
      "# HELP a What.\n# TYPE a counter\na 1\n"
      "b{x=\"1\",y=\"a\\\"b\\\\n\\nc\"} 2.5e3\n"
      "c +Inf\n\nd{x=\"\"} NaN");
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 4U);
  EXPECT_EQ((*samples)[0].name, "a");
  EXPECT_EQ((*samples)[0].value, 1);
  EXPECT_THAT((*samples)[1].labels, ElementsAre(Pair("x", "1"), Pair("y", "a\"b\\n\nc")));
  EXPECT_EQ((*samples)[1].value, 2500);
  EXPECT_GT((*samples)[2].value, 1e308);
  EXPECT_THAT((*samples)[3].labels, ElementsAre(Pair("x", "")));
  EXPECT_NE((*samples)[3].value, (*samples)[3].value);
}

TEST(ParseMetrics, NamesTheLineThatIsNoSample) {
  for (const char* bad : {"a", "a b", "{x=\"1\"} 1", "a{x=1} 1", "a{x=\"1} 1", "a{x=\"1\" 1",
                          "a{=\"1\"} 1", "a{x=\"\\", "a 1x", "<html>"}) {
    const auto samples = parse_metrics(std::string("ok 1\n") + bad);
    ASSERT_FALSE(samples) << bad;
    EXPECT_THAT(samples.error().message,
                HasSubstr("line 2 must be a name, labels and a number, is "));
  }
}

}  // namespace
}  // namespace mgpu::test
