#include "bench/sim/manifest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "bench/sim/examples.h"
#include "common/kube/objects/object_json.h"

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
      "kind: Pod\nmetadata: {name: a}\nspec: {}\n---\nkind: Node\nmetadata: {name: n}\n---\n"
      "kind: Pod\nmetadata: {name: b, namespace: team}\nspec: {}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->nodes.size(), 1u);
  ASSERT_EQ(read->pods.size(), 2u);
  EXPECT_EQ(to_string(kube::read_pod(read->pods[0])->ref()), "default/a");
  EXPECT_EQ(to_string(kube::read_pod(read->pods[1])->ref()), "team/b");
}

TEST(Manifest, RefusesANodeWithoutAName) {
  for (const char* yaml : {"kind: Node\n", "kind: Node\nmetadata: gpu-1\n",
                           "kind: Node\nmetadata: {labels: {a: b}}\n"}) {
    const auto read = read_manifests(yaml, "x.yaml");
    ASSERT_FALSE(read) << yaml;
    EXPECT_EQ(read.error().message, "x.yaml: line 1: metadata.name of a Node is missing");
  }
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
      "spec: {priority: 7, hostNetwork: true, nodeName: null, q: 1e3, half: 0.5}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  const auto pod = nlohmann::json::parse(read->pods[0]);
  EXPECT_EQ(pod["metadata"]["annotations"]["x"], "3");
  EXPECT_EQ(pod["metadata"]["annotations"]["y"], "true");
  EXPECT_EQ(pod["spec"]["priority"], 7);
  EXPECT_EQ(pod["spec"]["hostNetwork"], true);
  EXPECT_TRUE(pod["spec"]["nodeName"].is_null());
  EXPECT_EQ(pod["spec"]["q"], 1000);
  EXPECT_EQ(pod["spec"]["half"], 0.5);
}

TEST(Manifest, AcceptsTheOutputOfKubectlGet) {
  auto read = read_manifests(
      "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a, uid: u, resourceVersion: '7'}\n"
      "  spec: {}\n"
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
      {"kind: Job\nmetadata: {generateName: j-}\n"
       "spec: {parallelism: 2, template: {spec: {}}}",
       {"j-0-0", "j-0-1"}},
      {"kind: Pod\nmetadata: {generateName: p-}\nspec: {}\n---\n"
       "kind: Pod\nmetadata: {generateName: p-}\nspec: {}",
       {"p-0", "p-1"}},
      {"kind: DaemonSet\nmetadata: {name: d}\nspec: {template: {spec: {}}}", {"d-0"}},
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

TEST(Manifest, NamesWhatItDoesNotRead) {
  const auto read = read_manifests(
      "kind: Service\nmetadata: {name: s}\n---\nkind: Node\nmetadata: {name: n}\n---\n"
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n",
      "x.yaml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->not_read,
            "x.yaml: no pods are read of Service s (document 1), Job j of "
            "batch.volcano.sh/v1alpha1 (document 3)");
}

TEST(Manifest, ReportsMistakesWithFileAndLine) {
  EXPECT_EQ(problem_of("kind: Node\nmetadata: {name: n}\n---\nkind: Pod\nspec: {}\n"),
            "x.yaml: line 4: Pod in document 2: metadata.name is missing, expected a name");
}

TEST(Manifest, LimitsTheNumberOfReplicas) {
  EXPECT_THAT(problem_of("kind: Deployment\nmetadata: {name: d}\n"
                         "spec: {replicas: 99999999999, template: {spec: {}}}\n"
                         "---\nkind: Pod\nmetadata: {name: one-more}\nspec: {}\n"),
              HasSubstr("more than 100000 nodes and pods"));
}

TEST(Manifest, NamesAMissingFile) {
  auto read = read_manifest_file("/nowhere/pods.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "cannot read file \"/nowhere/pods.yaml\": No such file or directory");
}

TEST(Manifest, RejectsADirectory) {
  auto read = read_manifest_file("/");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, StartsWith("cannot read file \"/\""));
}

}  // namespace
}  // namespace mgpu::sim
