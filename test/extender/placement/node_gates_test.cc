#include "extender/placement/node_gates.h"

#include <gtest/gtest.h>

#include <string>

#include "common/kube/objects/object_json.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

bool may_enter(const kube::NodeRules& rules, const NodeGates& gates) {
  return !gate_for(rules, "n", gates);
}

bool may(const std::string& spec) {
  const auto node = kube::read_node(R"({"metadata":{"name":"n",
      "labels":{"pool":"a","size":"4","kubernetes.io/hostname":"n"}},"spec":{"taints":[
      {"key":"gpu","value":"yes","effect":"NoSchedule"},
      {"key":"x","effect":"PreferNoSchedule"}]}})");
  const auto pod = kube::read_pod(R"({"spec":{)" + spec + "}}");
  EXPECT_TRUE(node && pod) << spec;
  return may_enter(pod->node_rules, gates_of(*node));
}

const std::string kTolerates = R"("tolerations":[{"key":"gpu","operator":"Exists"}],)";

std::string affinity(const std::string& terms) {
  return kTolerates + R"("affinity":{"nodeAffinity":{
      "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[)" +
         terms + "]}}}";
}

std::string expression(const std::string& key, const std::string& op, const std::string& values) {
  return R"({"matchExpressions":[{"key":")" + key + R"(","operator":")" + op + R"(","values":[)" +
         values + "]}]}";
}

TEST(NodeGates, APodNeedsATolerationForEachTaintThatKeepsPodsAway) {
  const auto tolerates = [](const std::string& one) {
    return may(R"("tolerations":[)" + one + "]");
  };
  EXPECT_FALSE(may(R"("tolerations":null)"));
  EXPECT_TRUE(tolerates(R"({"key":"gpu","operator":"Exists"})"));
  EXPECT_TRUE(tolerates(R"({"operator":"Exists"})"));
  EXPECT_TRUE(tolerates(R"({"key":"gpu","value":"yes","effect":"NoSchedule"})"));
  EXPECT_FALSE(tolerates(R"({"key":"gpu","operator":"Equal","value":"no"})"));
  EXPECT_FALSE(tolerates(R"({"key":"gpu","operator":"Exists","effect":"NoExecute"})"));
  EXPECT_FALSE(tolerates(R"({"key":"other","operator":"Exists"})"));
}

TEST(NodeGates, ACordonedNodeLetsInWhatToleratesIt) {
  kube::Node node;
  node.unschedulable = true;
  kube::NodeRules rules;
  EXPECT_EQ(gate_for(rules, "n", gates_of(node)), Gate::kCordon);
  rules.tolerations.push_back(
      {.key = "node.kubernetes.io/unschedulable", .op = "Exists", .value = "", .effect = ""});
  EXPECT_TRUE(may_enter(rules, gates_of(node)));
}

TEST(NodeGates, ASelectorNamesLabels) {
  EXPECT_TRUE(may(kTolerates + R"("nodeSelector":{"pool":"a"})"));
  EXPECT_FALSE(may(kTolerates + R"("nodeSelector":{"pool":"b"})"));
  EXPECT_FALSE(may(kTolerates + R"("nodeSelector":{"pool":"a","zone":"a"})"));
}

TEST(NodeGates, OneTermOfAnAffinityIsMet) {
  EXPECT_TRUE(may(affinity(expression("pool", "In", R"("b","a")"))));
  EXPECT_FALSE(may(affinity(expression("pool", "In", R"("b")"))));
  EXPECT_FALSE(may(affinity(expression("pool", "NotIn", R"("b","a")"))));
  EXPECT_TRUE(may(affinity(expression("zone", "NotIn", R"("b")"))));
  EXPECT_TRUE(may(affinity(expression("pool", "Exists", ""))));
  EXPECT_FALSE(may(affinity(expression("pool", "DoesNotExist", ""))));
  EXPECT_TRUE(
      may(affinity(expression("pool", "In", R"("b")") + "," + expression("pool", "In", R"("a")"))));
  EXPECT_FALSE(may(affinity(R"({"matchExpressions":[{"key":"pool","operator":"Exists"},
                                {"key":"zone","operator":"Exists"}]})")));
  EXPECT_TRUE(
      may(affinity(R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]})")));
  EXPECT_FALSE(may(
      affinity(R"({"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]})")));
  EXPECT_FALSE(may(affinity("{}"))) << "an empty term selects nothing";
  EXPECT_FALSE(may(affinity("")));
}

TEST(NodeGates, NumbersAreCompared) {
  EXPECT_TRUE(may(affinity(expression("size", "Gt", R"("3")"))));
  EXPECT_FALSE(may(affinity(expression("size", "Gt", R"("4")"))));
  EXPECT_TRUE(may(affinity(expression("size", "Lt", R"("5")"))));
  EXPECT_FALSE(may(affinity(expression("size", "Lt", R"("-5")"))));
  EXPECT_FALSE(may(affinity(expression("pool", "Gt", R"("3")")))) << "a label that is no number";
  EXPECT_FALSE(may(affinity(expression("zone", "Gt", R"("3")")))) << "no such label";
  EXPECT_FALSE(may(affinity(expression("size", "Gt", R"("x")"))));
  EXPECT_FALSE(may(affinity(expression("size", "Gt", R"("1","2")"))));
  EXPECT_FALSE(may(affinity(expression("size", "Is", R"("4")"))));
}

TEST(NodeGates, ATolerationMayCompareTheValueOfATaint) {
  kube::Node node;
  node.taints.push_back({.key = "tier", .value = "4", .effect = "NoSchedule", .time_added = ""});
  const auto tolerates = [&](const char* op, const char* value) {
    kube::NodeRules rules;
    rules.tolerations.push_back({.key = "tier", .op = op, .value = value, .effect = ""});
    return may_enter(rules, gates_of(node));
  };
  EXPECT_TRUE(tolerates("Gt", "3"));
  EXPECT_FALSE(tolerates("Gt", "4"));
  EXPECT_TRUE(tolerates("Lt", "5"));
  EXPECT_FALSE(tolerates("Lt", "x"));
  EXPECT_FALSE(tolerates("In", "4"));
}

TEST(NodeGates, TheFirstOfTheFiltersThatRefusesIsReported) {
  kube::Node node;
  kube::NodeRules rules;
  rules.selector["pool"] = "a";
  EXPECT_EQ(gate_for(rules, "n", gates_of(node)), Gate::kAffinity);
  node.taints.push_back({.key = "k", .value = "", .effect = "NoExecute", .time_added = ""});
  EXPECT_EQ(gate_for(rules, "n", gates_of(node)), Gate::kTaint);
  node.unschedulable = true;
  EXPECT_EQ(gate_for(rules, "n", gates_of(node)), Gate::kCordon);
}

// A tenant writes them.
TEST(NodeGates, VeryManyRulesAreNotRead) {
  kube::NodeRules rules;
  for (std::size_t i = 0; i < kNodeRuleTextsMax; ++i) rules.selector[std::to_string(i)] = "";
  EXPECT_FALSE(may_enter(rules, {}));
  EXPECT_TRUE(are_read(rules));
  rules.selector["one more"] = "";
  EXPECT_TRUE(may_enter(rules, {}));
  EXPECT_FALSE(are_read(rules));
}

}  // namespace
}  // namespace mgpu::extender
