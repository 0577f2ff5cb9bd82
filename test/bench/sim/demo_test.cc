#include "bench/sim/demo.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "extender/placement/policy.h"

namespace mgpu::sim {
namespace {

std::string output_of(const DemoOptions& options) {
  testing::internal::CaptureStdout();
  const auto ran = run_demo(options);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(ran) << ran.error().message;
  return printed;
}

// The standard output of the demo of deploy/examples.
std::string output_of_demo(bool json) {
  DemoOptions options{.manifests = *embedded_nodes(),
                      .policy = std::string(extender::kDefaultPolicy),
                      .resource_domain = std::string(kDefaultResourceDomain),
                      .json = json};
  options.manifests.pods = embedded_pods()->pods;
  return output_of(options);
}

TEST(Demo, PrintsEveryPodAsJson) {
  const auto pods = nlohmann::json::parse(output_of_demo(true));
  ASSERT_EQ(pods.size(), 8U);
  EXPECT_EQ(pods[4]["name"], "two-whole-cards");
  EXPECT_EQ(pods[4]["namespace"], "default");
  EXPECT_EQ(pods[4]["node"], "plain-c");
  EXPECT_EQ(pods[4]["annotations"]["vke.volcengine.com/gpu-index-container-train"], "0,1");
  EXPECT_EQ(pods[4]["reason"], "");
  EXPECT_EQ(pods[7]["node"], "");
  EXPECT_THAT(pods[7]["reason"], testing::StartsWith("0/3 nodes are available: "));
}

constexpr const char* kDumpedNode = R"(
kind: Node
metadata:
  name: n1
  annotations: {vke.volcengine.com/mgpu-cards: '{"version": 1, "cards": [{"index": 0,
    "uuid": "GPU-0", "model": "A100", "memoryMiB": 80000, "health": "Healthy"}]}'}
status:
  capacity: {vke.volcengine.com/mgpu-core: "100", vke.volcengine.com/mgpu-memory: "80000"}
)";

// A pod of `kubectl get -o yaml` that requests 60 %; `spec` and `status` are in flow style.
std::string dumped_pod(const std::string& name, const std::string& metadata,
                       const std::string& spec, const std::string& status) {
  return "---\nkind: Pod\nmetadata:\n  name: " + name + "\n  annotations: {" +
         R"(vke.volcengine.com/assumed: "true", vke.volcengine.com/gpu-index-container-c: "0"})" +
         metadata + "\nspec:\n  containers:\n  - {name: c, image: x, resources: {limits: {" +
         R"(vke.volcengine.com/mgpu-core: "60", vke.volcengine.com/mgpu-memory: "20000"}}})" +
         spec + "\nstatus: " + status + "\n";
}

TEST(Demo, PodsOfADumpThatHaveFinishedHoldNothing) {
  const std::string bound = "\n  nodeName: n1";
  const std::string deleted = "\n  deletionTimestamp: '2026-01-02T03:04:05Z'";
  const std::string dump = kDumpedNode + dumped_pod("done", "", bound, "{phase: Succeeded}") +
                           dumped_pod("failed", deleted, bound, "{phase: Failed}") +
                           dumped_pod("never-bound", "", "", "{phase: Failed}") +
                           dumped_pod("deleted", deleted, "", "{phase: Pending}") +
                           dumped_pod("next", "", "", "{phase: Pending}");
  DemoOptions options{.manifests = *read_manifests(dump, "dump"),
                      .policy = std::string(extender::kDefaultPolicy),
                      .resource_domain = std::string(kDefaultResourceDomain)};
  const std::string text = output_of(options);
  EXPECT_THAT(text, testing::ContainsRegex("n1 +0 +Healthy +1 +60/100 "));
  EXPECT_THAT(text, testing::Not(testing::ContainsRegex("done|failed|never-bound")));
  EXPECT_THAT(text, testing::ContainsRegex("deleted +Unscheduled "));
  EXPECT_THAT(text, testing::HasSubstr("default/deleted: it is being deleted\n"));
  EXPECT_THAT(text, testing::ContainsRegex("next .* n1 +0 +60 +20,000"));
}

TEST(Demo, SaysWhyARequestIsInvalid) {
  const std::string pod =
      "---\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: x, "
      "resources: "
      R"({limits: {vke.volcengine.com/mgpu-core: "60", vke.volcengine.com/mgpu-memory: 8Gi}}})";
  const DemoOptions options{.manifests = *read_manifests(kDumpedNode + pod, "dump"),
                            .policy = std::string(extender::kDefaultPolicy),
                            .resource_domain = std::string(kDefaultResourceDomain)};
  EXPECT_THAT(output_of(options), testing::HasSubstr("container \"c\" requests "
                                                     "vke.volcengine.com/mgpu-memory 8589934592 "
                                                     "MiB of one card; it must be at most"));
}

DemoOptions options_of(const std::string& manifests, bool json = false) {
  return {.manifests = *read_manifests(manifests, "dump"),
          .policy = std::string(extender::kDefaultPolicy),
          .resource_domain = std::string(kDefaultResourceDomain),
          .json = json};
}

std::string pod_with(const std::string& name, const std::string& limits,
                     const std::string& spec = "") {
  return "---\nkind: Pod\nmetadata: {name: " + name +
         "}\nspec: {containers: [{name: c, image: x, resources: {limits: {" + limits + "}}}]" +
         spec + "}\n";
}

TEST(Demo, ShowsAPodThatTheApiServerRefuses) {
  const std::string dump = kDumpedNode + pod_with("bad", "vke.volcengine.com/mgpu-core: -20") +
                           pod_with("good", "vke.volcengine.com/mgpu-core: 100");
  const auto pods = nlohmann::json::parse(output_of(options_of(dump, true)));
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_THAT(pods[0]["reason"], testing::StartsWith("refused by the API server: "));
  EXPECT_EQ(pods[1]["node"], "n1");
  const std::string text = output_of(options_of(dump));
  EXPECT_THAT(text, testing::ContainsRegex("bad +Refused "));
  EXPECT_THAT(text, testing::HasSubstr("\n1 of 2 pods run on 1 card, of whose compute 100.0 % is "
                                       "granted.\n"));
}

TEST(Demo, SaysWhatIsWrongWithAmountsAndAnnotations) {
  const std::string share =
      "vke.volcengine.com/mgpu-core: \"30\", vke.volcengine.com/mgpu-memory: \"1024\"";
  std::string typo = pod_with("typo", share);
  typo.insert(typo.find("typo") + 4, ", annotations: {vke.volcengine.com/gpu-modell: A100}");
  const std::string text = output_of(
      options_of(kDumpedNode + pod_with("half", "vke.volcengine.com/mgpu-core: half") + typo));
  EXPECT_THAT(text, testing::ContainsRegex("default/half: refused .*; expected whole numbers: "));
  EXPECT_THAT(text, testing::HasSubstr("\ndefault/typo: mgpu does not know the annotation "
                                       "vke.volcengine.com/gpu-modell, and ignores it\n"));
}

TEST(Demo, PodsThatRequestNoGpusAreLeftOut) {
  const std::string text = output_of(options_of(kDumpedNode + pod_with("web", "cpu: 1")));
  EXPECT_THAT(text, testing::HasSubstr("Left out because they request no GPUs: 1 pods.\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n0 of 0 pods run on 1 card,"));
}

constexpr const char* kLabelledNode = R"(
kind: Node
metadata:
  name: n1
  labels: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB, nvidia.com/gpu.count: "2",
           nvidia.com/gpu.memory: "81920", pool: a}
status: {capacity: {nvidia.com/gpu: "2"}, allocatable: {nvidia.com/gpu: "2"}}
)";

TEST(Demo, ShowsAClusterOfNvidiasDevicePluginAsMgpuWouldSeeIt) {
  const std::string text = output_of(options_of(
      kLabelledNode + pod_with("runs", "nvidia.com/gpu: 1", ", nodeName: other") +
      pod_with("new", "vke.volcengine.com/mgpu-core: 30, vke.volcengine.com/mgpu-memory: 8192") +
      pod_with("mig", "nvidia.com/mig-1g.10gb: 1") +
      pod_with("model", "nvidia.com/gpu: 1, nvidia.com/priority: 1")));
  EXPECT_THAT(text, testing::StartsWith("mgpu-extender on 127.0.0.1:"));
  EXPECT_THAT(text, testing::HasSubstr("This is how mgpu would see your cluster: 1 of 1 nodes have "
                                       "the cards of NVIDIA's labels, and 1 pods were converted"));
  EXPECT_THAT(text, testing::ContainsRegex("n1 +1 +Healthy +. .*/81,920 +NVIDIA-A100-SXM4-80GB\n"));
  EXPECT_THAT(text, testing::ContainsRegex("runs +Starting +n1 +. +100 +whole cards"));
  EXPECT_THAT(text, testing::ContainsRegex("new +Starting +n1 +. +30 "));
  EXPECT_THAT(text, testing::HasSubstr("default/mig: 0/1 nodes are available: 1 Insufficient "
                                       "nvidia.com/mig-1g.10gb.\n"));
  EXPECT_THAT(text, testing::HasSubstr("default/model: cannot be converted: "));
}

TEST(Demo, PodsStayOffNodesThatTheyMayNotEnter) {
  const std::string core = "vke.volcengine.com/mgpu-core: 100";
  const std::string text = output_of(options_of(
      kLabelledNode + std::string("spec: {taints: [{key: gpu, effect: NoSchedule}]}\n") +
      pod_with("plain", core) + pod_with("tolerates", core, ", tolerations: [{operator: Exists}]") +
      pod_with("selects", core, ", tolerations: [{operator: Exists}], nodeSelector: {pool: b}")));
  EXPECT_THAT(text, testing::ContainsRegex("tolerates +Starting +n1 "));
  EXPECT_THAT(text, testing::HasSubstr("default/plain: 0/1 nodes are available: 1 node(s) had "
                                       "untolerated taint(s).\n"));
  EXPECT_THAT(text, testing::HasSubstr("default/selects: 0/1 nodes are available: 1 node(s) didn't "
                                       "match Pod's node affinity/selector.\n"));
}

TEST(Demo, APodOfADumpThatIsBeingDeletedHoldsItsCardsUntilItHasFinished) {
  const std::string dump = kDumpedNode +
                           dumped_pod("ends", "\n  deletionTimestamp: '2026-01-02T03:04:05Z'",
                                      "\n  nodeName: n1", "{phase: Running}") +
                           dumped_pod("next", "", "", "{}");
  DemoOptions options{.manifests = *read_manifests(dump, "dump"),
                      .policy = std::string(extender::kDefaultPolicy),
                      .resource_domain = std::string(kDefaultResourceDomain),
                      .json = true};
  const auto pods = nlohmann::json::parse(output_of(options));
  EXPECT_EQ(pods.at(0)["node"], "n1");
  EXPECT_EQ(pods.at(1)["node"], "");
}

TEST(Demo, PrintsNodesAndPodsAsText) {
  const std::string text = output_of_demo(false);
  EXPECT_THAT(text, testing::HasSubstr("annotations under vke.volcengine.com/"));
  EXPECT_THAT(text, testing::ContainsRegex("mixed-b +0 +Healthy .*/81,559 +A100-80G"));
  EXPECT_THAT(text, testing::ContainsRegex("two-whole-cards .* plain-c +0,1 +200 +whole cards"));
  EXPECT_THAT(text, testing::HasSubstr("\ndefault/too-wide: 0/3 nodes are available: "));
}

}  // namespace
}  // namespace mgpu::sim
