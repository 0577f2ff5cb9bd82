#include "extender/kubectl/doctor/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/contract/gpu_request.h"
#include "common/kube/objects/object_json.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr const char* kAdmission = "/apis/admissionregistration.k8s.io/v1/";

std::string namespaced(const char* group, const std::string& name_space, const std::string& rest) {
  return fmt::format("{}/namespaces/{}/{}", group, name_space, rest);
}

// The objects that `read` returns for a collection. One that it cannot read is skipped and noted.
template <class T, class Read>
Fact<std::vector<T>> collect_objects(Api& api, const kube::Resource& resource,
                                     const std::string& what, Facts& facts, const Read& read) {
  std::vector<T> objects;
  const auto listed = api.list(resource, what, [&](const std::string& text) {
    auto object = read(text);
    if (object) {
      objects.push_back(*std::move(object));
    } else if (facts.unreadable.size() < kUnreadableMax) {
      facts.unreadable.push_back(
          fmt::format("{}: {}: {}", what, kube::name_of_object(text), object.error().message));
    }
  });
  if (!listed.known()) return listed.template as<std::vector<T>>();
  return objects;
}

Fact<std::set<std::string>> as_set(const Fact<std::vector<std::string>>& names) {
  if (!names.known()) return names.as<std::set<std::string>>();
  return std::set<std::string>(names->begin(), names->end());
}

void collect_server(Api& api, const std::function<Time()>& clock, Facts& facts) {
  kube::Request request;
  request.target = "/version";
  const Time before = clock();
  const kube::Response response = api.call(std::move(request));
  const Time after = clock();
  facts.server = read_fact(body_of(response, "get the version of the API server"),
                           "version of the API server", read_server_version);
  facts.now = after;
  if (!response.date) return;
  // The header was written between the two.
  facts.clock_difference = *response.date - (before + (after - before) / 2);
  facts.now = *response.date;
}

void collect_installation(Api& api, Facts& facts) {
  Installation found = find_installation(api, facts.name_space, facts.lease_name);
  facts.name_space = found.name_space;
  facts.found_here = found.found;
  facts.elsewhere = std::move(found.elsewhere);
  facts.takes_tokens = found.takes_tokens;
  facts.installer =
      read_fact(api.get(namespaced("/api/v1", facts.name_space, "serviceaccounts/" + found.account),
                        "get the service account of the extender"),
                "service account of the extender", read_installer);
}

void collect_programs(Api& api, Facts& facts) {
  const auto pods = collect_objects<ProgramPod>(
      api, {namespaced("/api/v1", facts.name_space, "pods"), "", kProgramLabels},
      fmt::format("list pods of mgpu in namespace {}", facts.name_space), facts, read_program_pod);
  if (!pods.known()) {
    facts.extender_pods = pods;
    facts.plugin_pods = pods;
    return;
  }
  std::vector<ProgramPod> extenders;
  std::vector<ProgramPod> plugins;
  for (const ProgramPod& pod : pods.value()) {
    if (pod.has_ended()) continue;
    if (pod.is_extender()) extenders.push_back(pod);
    if (pod.is_plugin()) plugins.push_back(pod);
  }
  facts.extender_pods = std::move(extenders);
  facts.plugin_pods = std::move(plugins);
}

void collect_leader(Api& api, Facts& facts) {
  const auto get = [&](const char* group, const std::string& rest, const char* what) {
    return api.get(namespaced(group, facts.name_space, rest),
                   fmt::format("get {} in namespace {}", what, facts.name_space));
  };
  facts.lease =
      read_fact(get("/apis/coordination.k8s.io/v1", "leases/" + facts.lease_name, "the Lease"),
                "Lease", read_lease_facts);
  facts.service_name =
      read_fact(get("/api/v1", "services/" + facts.service, "the Service"), "Service", read_name);
  if (!facts.service_name.known()) return;
  facts.slices = collect_objects<SliceFacts>(
      api,
      {namespaced("/apis/discovery.k8s.io/v1", facts.name_space, "endpointslices"), "",
       "kubernetes.io/service-name=" + facts.service},
      fmt::format("list EndpointSlices in namespace {}", facts.name_space), facts, read_slice);
}

void collect_policies(Api& api, Facts& facts) {
  facts.policies = as_set(collect_objects<std::string>(
      api, {std::string(kAdmission) + "validatingadmissionpolicies", ""},
      "list ValidatingAdmissionPolicies", facts, read_name));
  facts.policy_bindings = collect_objects<PolicyBinding>(
      api, {std::string(kAdmission) + "validatingadmissionpolicybindings", ""},
      "list ValidatingAdmissionPolicyBindings", facts, read_policy_binding);
}

// An API server before Kubernetes 1.34 has none.
void collect_device_classes(Api& api, Facts& facts) {
  facts.device_classes =
      collect_objects<DeviceClass>(api, {"/apis/resource.k8s.io/v1/deviceclasses", ""},
                                   "list DeviceClasses", facts, read_device_class);
  if (facts.device_classes.absent()) facts.device_classes = std::vector<DeviceClass>();
}

void collect_nodes(Api& api, Facts& facts) {
  facts.nodes = collect_objects<CheckedNode>(api, {"/api/v1/nodes", "", facts.node_selector},
                                             "list nodes", facts, read_checked_node);
}

// Whether the pod requests cards, or has annotations as if it had some.
bool is_about_cards(const kube::Pod& pod, const Contract& contract) {
  const auto most = most_of_one_card(pod, contract);
  return !most || !most->zero() || has_placement_annotation(pod, contract);
}

Fact<std::vector<GpuPod>> collect_pods(Api& api, const kube::Resource& resource,
                                       const std::string& what, Facts& facts) {
  // Most pods of a cluster have no cards, and are not kept.
  std::vector<GpuPod> pods;
  const auto listed = collect_objects<bool>(api, resource, what, facts,
                                            [&](const std::string& text) -> Result<bool> {
                                              auto pod = read_gpu_pod(text);
                                              if (!pod) return pod.error();
                                              if (is_about_cards(pod->pod, facts.contract))
                                                pods.push_back(*std::move(pod));
                                              return true;
                                            });
  if (!listed.known()) return listed.as<std::vector<GpuPod>>();
  return pods;
}

Fact<std::vector<KubeletGates>> collect_gates(Api& api, const Facts& facts) {
  if (!facts.nodes.known()) return {Missing::kNotAsked, facts.nodes.problem()};
  std::vector<std::string> names;
  std::vector<kube::Request> requests;
  for (const CheckedNode& node : facts.nodes.value()) {
    if (names.size() == kConfiguredNodesMax || !has_cards(node, facts.contract)) continue;
    kube::Request request = kube::get_node(NodeName(node.name));
    request.target += "/proxy/configz";
    names.push_back(node.name);
    requests.push_back(std::move(request));
  }
  const auto responses = api.call_all(std::move(requests));
  std::vector<KubeletGates> all;
  Fact<std::map<std::string, bool>> problem;
  for (std::size_t i = 0; i < responses.size(); ++i) {
    const auto gates = read_fact(body_of(responses[i], "get the configuration of a kubelet"),
                                 "configuration of kubelet", read_feature_gates);
    if (gates.known()) {
      all.push_back({names[i], gates.value()});
    } else {
      problem = gates;
    }
  }
  if (all.empty() && !responses.empty()) return problem.as<std::vector<KubeletGates>>();
  return all;
}

}  // namespace

void collect_facts(Api& api, const std::function<Time()>& clock, Facts& facts) {
  collect_server(api, clock, facts);
  collect_installation(api, facts);
  collect_programs(api, facts);
  collect_leader(api, facts);
  collect_policies(api, facts);
  collect_device_classes(api, facts);
  collect_nodes(api, facts);
  facts.bound_pods = collect_pods(api, kube::bound_pods(), "list pods with a node", facts);
  facts.waiting_pods = collect_pods(api, kube::unbound_pods(), "list pods without a node", facts);
  facts.gates = collect_gates(api, facts);
  facts.two_binders = collect_scheduler_configs(api, facts);
  facts.schedulers_of_two_binders = collect_schedulers_with_two_binders(api);
  facts.rights = collect_rights(api, facts);
}

}  // namespace mgpu::kubectl
