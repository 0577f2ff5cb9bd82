#include "test/extender/kubectl/doctor/good_facts.h"

namespace mgpu::test {

using namespace kubectl;
using std::chrono::seconds;

namespace {

std::string key(const std::string& name) {
  return std::string(kDomain) + "/" + name;
}

ReplicaFacts replica(const std::string& name) {
  ReplicaFacts facts;
  facts.name = "kube-system/" + name;
  facts.version = std::string("0.1.0");
  facts.readiness = Readiness{
      .ready = true, .waiting_for = {}, .without = {}, .api_server = "answers", .unreadable = {}};
  facts.metrics = MetricSamples{
      {"mgpu_extender_verb_duration_seconds_count", {{"verb", "filter"}}, 12},
      {"mgpu_extender_bad_requests_total", {{"verb", "filter"}}, 0},
      {"mgpu_extender_http_refused_total", {{"listener", "verbs"}, {"why", "tls"}}, 0},
  };
  facts.cluster = InspectedCluster{};
  return facts;
}

}  // namespace

Time now() {
  return Time(seconds(1'800'000'000));  // 2027-01-15T08:00:00Z
}

ProgramPod program_pod(const std::string& name, const std::string& node) {
  ProgramPod pod;
  pod.ref = {"kube-system", name};
  pod.node = node;
  pod.version = "0.1.0";
  pod.address = "10.0.0." + name.substr(name.size() - 1);
  pod.phase = "Running";
  pod.ready = true;
  return pod;
}

CheckedNode gpu_node(const std::string& name) {
  const std::vector<CardFacts> cards = {
      {CardIndex(0), CardUuid("GPU-" + name + "-0"), "V100", MiB(32'000)},
      {CardIndex(1), CardUuid("GPU-" + name + "-1"), "V100", MiB(32'000)}};
  CheckedNode node;
  node.name = name;
  node.labels = {{key("mgpu-node"), "true"}};
  node.annotations = {{key("mgpu-cards"), format_node_cards(cards)}};
  node.capacity = {{key("mgpu-core"), "200"}, {key("mgpu-memory"), "64k"}};
  node.allocatable = node.capacity;
  node.conditions = {{"MGPUReady", "True", "CardsReady", "2 of 2 cards are healthy"},
                     {"MGPUCardsExclusive", "True", "OnlyMGPU", ""}};
  node.kubelet_version = "v1.35.0";
  return node;
}

GpuPod gpu_pod(const std::string& name, const std::string& node,
               const std::map<std::string, std::string>& annotations) {
  GpuPod gpu;
  gpu.pod.metadata.name = name;
  gpu.pod.metadata.name_space = "default";
  gpu.pod.node_name = node;
  for (const auto& [annotation, value] : annotations) {
    gpu.pod.metadata.annotations[key(annotation)] = value;
  }
  kube::Container app;
  app.name = "app";
  app.limits = {{key("mgpu-core"), "50"}, {key("mgpu-memory"), "1024"}};
  gpu.pod.containers = {app};
  gpu.created = now() - std::chrono::hours(1);
  return gpu;
}

Facts good_facts() {
  Facts facts;
  facts.cli_version = "0.1.0";
  facts.contract = *Contract::for_domain(kDomain);
  facts.name_space = "kube-system";
  facts.found_here = true;
  facts.takes_tokens = true;
  facts.installer = Installer{};
  facts.lease_name = "mgpu-extender";
  facts.service = "mgpu-extender";
  facts.now = now();
  facts.server = Version{1, 36, 3, "v1.36.3"};
  facts.clock_difference = seconds(1);
  facts.extender_pods =
      std::vector{program_pod("mgpu-extender-1", "n1"), program_pod("mgpu-extender-2", "n2")};
  facts.plugin_pods = std::vector{program_pod("mgpu-device-plugin-9", "gpu-1")};
  facts.lease = LeaseFacts{kHolder, 15, now() - seconds(2)};
  facts.service_name = std::string("mgpu-extender");
  facts.slices = std::vector{SliceFacts{{"10.0.0.1"}}};
  facts.policies = std::set<std::string>{"mgpu-cards-of-bound-pods", "mgpu-cards-need-a-scheduler",
                                         "mgpu-extender-touch",      "mgpu-extender-events",
                                         "mgpu-extender-evictions",  "mgpu-device-plugin-node",
                                         "mgpu-device-plugin-events"};
  std::vector<PolicyBinding> bindings;
  for (const std::string& policy : facts.policies.value()) bindings.push_back({policy, true});
  facts.policy_bindings = bindings;
  facts.nodes = std::vector{gpu_node("gpu-1")};
  facts.bound_pods =
      std::vector{gpu_pod("p1", "gpu-1", {{"assumed", "true"}, {"gpu-index-container-app", "1"}})};
  facts.waiting_pods = std::vector<GpuPod>{};
  facts.rights = std::vector{Right{"kube-system/mgpu-extender", "create pods/binding", true}};
  facts.two_binders = std::vector<SchedulerConfig>{};
  facts.device_classes =
      std::vector{DeviceClass{"gpu", "example.com/gpu"}, DeviceClass{"none", ""}};
  facts.gates = std::vector{KubeletGates{"gpu-1", {}}};
  facts.replicas = {replica("mgpu-extender-1"), replica("mgpu-extender-2")};
  return facts;
}

}  // namespace mgpu::test
