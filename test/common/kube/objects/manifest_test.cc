#include "common/kube/objects/manifest.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/yaml/json.h"
#include "test/support/scratch_folder.h"

namespace mgpu::kube {
namespace {

using ::testing::HasSubstr;

// The Pod of the first object and how often it is wanted, or what is wrong.
std::string pods_in(const std::string& text) {
  const auto manifest = read_manifest(text);
  if (!manifest) return manifest.error().message;
  const auto pod = pod_of(manifest->objects.at(0));
  if (!pod) return pod.error().message;
  const auto count = pods_wanted(manifest->objects.at(0));
  if (!count) return count.error().message;
  return std::to_string(*count) + " " + yaml::json_of(*pod);
}

TEST(ReadManifest, FindsObjectsInListsAndDocuments) {
  const auto manifest = read_manifest(
      "---\n---\nkind: List\nitems:\n- {kind: Pod, metadata: {name: a, namespace: team}}\n"
      "- {kind: PodList, items: [{kind: Pod}]}\n---\n{kind: Service, metadata: {name: s}}\n");
  ASSERT_TRUE(manifest) << manifest.error().message;
  ASSERT_EQ(manifest->objects.size(), 3U);
  EXPECT_EQ(manifest->objects[0].name(), "Pod team/a");
  EXPECT_EQ(manifest->objects[1].name(), "Pod in document 2");
  EXPECT_EQ(not_read(*manifest), "no pods are read of Service s (document 3)");
  EXPECT_EQ(not_read(*manifest, "Service"), "");
}

TEST(ReadManifest, ReadsNoPodsOfKindsOfOtherGroups) {
  const auto manifest = read_manifest(
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec: {tasks: []}\n"
      "---\nlimits: {cpu: 1}\n");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(not_read(*manifest),
            "no pods are read of Job j of batch.volcano.sh/v1alpha1 (document 1), object "
            "(document 2)");
}

TEST(ReadManifest, NamesOnlySomeObjectsThatItDoesNotRead) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "---\n{kind: ConfigMap, metadata: {name: c}}\n";
  const auto manifest = read_manifest(text);
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_THAT(not_read(*manifest), HasSubstr("ConfigMap c (document 10), 90 more"));
}

TEST(ReadManifest, MakesThePodOfAController) {
  EXPECT_EQ(pods_in("kind: Deployment\nmetadata: {name: d, namespace: team, labels: {no: no}}\n"
                    "spec: {replicas: 2, template: {metadata: {labels: {a: b}}, spec: {}}}\n"),
            R"(2 {"metadata":{"labels":{"a":"b"},"name":"d","namespace":"team"},"spec":{},)"
            R"("apiVersion":"v1","kind":"Pod"})");
}

TEST(ReadManifest, CountsThePodsThatAreWanted) {
  const std::string one = "template: {spec: {}}}";
  for (const auto& [text, count] : std::vector<std::pair<std::string, std::string>>{
           {"kind: StatefulSet\nspec: {" + one, "1 "},
           {"kind: ReplicaSet\nspec: {replicas: 0, " + one, "0 "},
           {"kind: DaemonSet\nspec: {" + one, "1 "},
           {"kind: ReplicationController\nspec: {replicas: ~, " + one, "1 "},
           {"kind: PodTemplate\ntemplate: {spec: {}}", "1 "},
           {"kind: Job\nspec: {parallelism: 3, " + one, "3 "},
           {"kind: Job\nspec: {parallelism: 3, completions: 5, " + one + "\nstatus: {succeeded: 4}",
            "1 "},
           {"kind: Job\nspec: {" + one + "\nstatus: {completionTime: '2026-01-02T03:04:05Z'}",
            "0 "},
           {"kind: Job\nspec: {" + one + "\nstatus: {conditions: [{type: Failed, status: 'True'}]}",
            "0 "},
           {"kind: CronJob\nspec: {jobTemplate: {spec: {parallelism: 2, " + one + "}}", "2 "}}) {
    EXPECT_THAT(pods_in("metadata: {name: a}\n" + text), testing::StartsWith(count)) << text;
  }
}

TEST(ReadManifest, NamesTheMistake) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"- 1\n", "line 1: has a list, expected a Kubernetes object"},
           {"just text", "line 1: has a text, expected a Kubernetes object"},
           {"kind: List\n", "line 1: items of the List is missing, expected a list of objects"},
           {"kind: Pod\nmetadata: text\n",
            "line 1: Pod in document 1: metadata.name is missing, expected a name"},
           {"kind: Job\nmetadata: {name: j}\n",
            "line 1: Job j: the template of pods is missing, expected a map"},
           {"kind: Pod\nmetadata: {name: p}\n",
            "line 1: Pod p: the spec of the pod is missing, expected a map"},
           {"kind: Deployment\nmetadata: {name: d}\nspec: {replicas: \"2\", template: {spec: {}}}",
            "line 3: Deployment d: spec.replicas must be a whole number, is \"2\""},
           {"kind: Job\nmetadata: {name: j}\nspec:\n  parallelism: x\n  template: {spec: {}}\n",
            "line 4: Job j: spec.parallelism must be a whole number, is \"x\""}}) {
    EXPECT_EQ(pods_in(text), why) << text;
  }
}

TEST(ReadManifest, ReadsAFileAndNamesAMissingOne) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("a.yaml")) << "kind: Pod\n";
  EXPECT_EQ(*read_manifest_file(folder.path("a.yaml")), "kind: Pod\n");
  EXPECT_THAT(read_manifest_file(folder.path("b.yaml")).error().message,
              HasSubstr("b.yaml\": No such file"));
}

}  // namespace
}  // namespace mgpu::kube
