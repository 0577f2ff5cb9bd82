#include "bench/sim/manifest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "bench/sim/examples.h"
#include "common/kube/object_json.h"

namespace mgpu::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string problem_of(const std::string& yaml) {
  auto read = read_manifests(yaml, "x.yaml");
  return read ? "" : read.error().message;
}

TEST(Manifest, ReadsNodesAndPodsOfManyDocumentsInOrder) {
  auto read = read_manifests(
      "kind: Pod\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: n}\n---\n"
      "kind: Pod\nmetadata: {name: b, namespace: team}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->nodes.size(), 1u);
  ASSERT_EQ(read->pods.size(), 2u);
  EXPECT_EQ(to_string(kube::read_pod(read->pods[0])->ref()), "default/a");
  EXPECT_EQ(to_string(kube::read_pod(read->pods[1])->ref()), "team/b");
}

TEST(Manifest, ReadsTheExamples) {
  auto nodes = read_manifests(kExampleNodes, "nodes");
  auto pods = read_manifests(kExamplePods, "pods");
  ASSERT_TRUE(nodes);
  ASSERT_TRUE(pods);
  EXPECT_EQ(nodes->nodes.size(), 3u);
  EXPECT_GE(pods->pods.size(), 8u);
}

TEST(Manifest, ReadsQuotedScalarsAsTextAndPlainOnesByType) {
  auto read = read_manifests(
      "kind: Pod\nmetadata:\n  name: a\n  annotations: {x: \"3\", y: 'true'}\n"
      "spec: {priority: 7, hostNetwork: true, nodeName: null, q: 1e3, text: 0.5}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  const auto pod = nlohmann::json::parse(read->pods[0]);
  EXPECT_EQ(pod["metadata"]["annotations"]["x"], "3");
  EXPECT_EQ(pod["metadata"]["annotations"]["y"], "true");
  EXPECT_EQ(pod["spec"]["priority"], 7);
  EXPECT_EQ(pod["spec"]["hostNetwork"], true);
  EXPECT_TRUE(pod["spec"]["nodeName"].is_null());
  EXPECT_EQ(pod["spec"]["q"], "1e3");
  EXPECT_EQ(pod["spec"]["text"], "0.5");
}

TEST(Manifest, AcceptsTheOutputOfKubectlGet) {
  auto read = read_manifests(
      "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a, uid: u, resourceVersion: '7'}\n"
      "- kind: Node\n  metadata: {name: n, managedFields: []}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  const auto pod = nlohmann::json::parse(read->pods.at(0));
  EXPECT_FALSE(pod["metadata"].contains("uid"));
  EXPECT_FALSE(pod["metadata"].contains("resourceVersion"));
  EXPECT_EQ(read->nodes.size(), 1u);
}

TEST(Manifest, MakesPodsOfWorkloads) {
  const struct {
    const char* yaml;
    std::vector<std::string> names;
  } cases[] = {
      {"kind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, template: {spec: {}}}",
       {"d-0", "d-1"}},
      {"kind: StatefulSet\nmetadata: {name: s}\nspec: {template: {spec: {}}}", {"s-0"}},
      {"kind: Job\nmetadata: {name: j}\nspec: {parallelism: 3, template: {spec: {}}}",
       {"j-0", "j-1", "j-2"}},
      {"kind: Job\nmetadata: {name: j}\nspec: {parallelism: 3, completions: 5, template: {}}\n"
       "status: {succeeded: 4}",
       {"j-0"}},
      {"kind: Job\nmetadata: {name: j}\nspec: {template: {}}\n"
       "status: {completionTime: '2026-01-02T03:04:05Z'}",
       {}},
      {"kind: Job\nmetadata: {name: j}\nspec: {template: {}}\n"
       "status: {conditions: [{type: Failed, status: 'True'}]}",
       {}},
      {"kind: ReplicaSet\nmetadata: {name: r}\nspec: {replicas: 0, template: {spec: {}}}", {}},
  };
  for (const auto& example : cases) {
    auto read = read_manifests(example.yaml, "x.yaml");
    ASSERT_TRUE(read) << example.yaml;
    std::vector<std::string> names;
    for (const std::string& pod : read->pods) names.push_back(kube::read_pod(pod)->metadata.name);
    EXPECT_EQ(names, example.names);
  }
}

TEST(Manifest, ReportsMistakesWithFileAndLine) {
  const struct {
    std::string yaml;
    const char* sentence;
  } cases[] = {
      {"kind: Pod\nmetadata: {name: a}\n---\nkind: Gadget\nmetadata: {name: g}\n",
       "x.yaml:4: kind is \"Gadget\", expected Node, Pod"},
      {"kind: Pod\nmetadata: {}\n", "metadata.name of a Pod is missing"},
      {"kind: Pod\nmetadata: {name: [\n", "not YAML"},
      {"- 1\n- 2\n", "not a Kubernetes object"},
      {"just text", "not a Kubernetes object"},
      {"kind: List\n", "items of a List is missing"},
      {"kind: Deployment\nmetadata: {name: d}\n", "spec.template of a Deployment is missing"},
      {"kind: Job\nmetadata: {name: j}\nspec: {parallelism: x, template: {}}\n",
       "not a whole number"},
      {"kind: Pod\n? [a]\n: b\n", "a key is not text"},
      {"kind: Pod\nmetadata: text\n", "metadata.name of a Pod is missing"},
      {std::string(100'000, '['), "x.yaml"},
      {"kind: Pod\nmetadata: {name: a, x: " + std::string(200, '[') + std::string(200, ']') + "}",
       "nested too deeply"},
  };
  for (const auto& example : cases) {
    const std::string problem = problem_of(example.yaml);
    EXPECT_THAT(problem, StartsWith("x.yaml")) << example.yaml.substr(0, 80);
    EXPECT_THAT(problem, HasSubstr(example.sentence));
  }
}

TEST(Manifest, ReadsAliases) {
  auto read = read_manifests(
      "kind: Pod\nmetadata: &meta {name: a, namespace: ml}\n"
      "copies: [*meta, *meta, *meta]\n",
      "x.yaml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pods.size(), 1u);
}

TEST(Manifest, RejectsAliasesThatMultiply) {
  std::string yaml = "kind: Pod\nmetadata: {name: a}\na0: &a0 [x]\n";
  for (int i = 1; i <= 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    yaml += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int copy = 0; copy < 9; ++copy) yaml += (copy == 0 ? "" : ", ") + before;
    yaml += "]\n";
  }
  EXPECT_THAT(problem_of(yaml), HasSubstr("more values than the text has characters"));
}

TEST(Manifest, LimitsTheNumberOfReplicas) {
  EXPECT_THAT(problem_of("kind: Deployment\nmetadata: {name: d}\n"
                         "spec: {replicas: 99999999999, template: {spec: {}}}\n"
                         "---\nkind: Pod\nmetadata: {name: one-more}\n"),
              HasSubstr("more than 100000 objects"));
}

TEST(Manifest, NamesAMissingFile) {
  auto read = read_manifest_file("/nowhere/pods.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "cannot read /nowhere/pods.yaml: No such file or directory");
}

TEST(Manifest, RejectsADirectory) {
  auto read = read_manifest_file("/");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, StartsWith("cannot read /"));
}

}  // namespace
}  // namespace mgpu::sim
