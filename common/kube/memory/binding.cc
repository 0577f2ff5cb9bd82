// POST pods/{name}/binding, in the order of checks of kubernetes
// pkg/registry/core/pod/storage/storage.go (BindingREST.Create, setPodNodeAndMetadata).
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/kube/memory/object.h"
#include "common/kube/memory/verbs.h"

namespace mgpu::kube {
namespace {

std::optional<Refusal> check_binding(const ApiPath& path, const Json& binding) {
  if (const auto problem = check_types(binding)) return bad_request(problem->message);
  if (text_at(binding, "metadata.name") != path.name) {
    return bad_request("name in URL does not match name in Binding object");
  }
  const std::string kind = text_at(binding, "target.kind");
  // Kubernetes gives these two no status of their own, so that they become 500.
  if (!kind.empty() && kind != "Node") {
    return Refusal{.code = 500, .message = "target.kind: Unsupported value: " + in_quotes(kind)};
  }
  if (text_at(binding, "target.name").empty()) {
    return Refusal{.code = 500, .message = "target.name: Required value"};
  }
  return {};
}

std::optional<Refusal> check_preconditions(const ServedKind& kind, const StoredObject& pod,
                                           const Json& binding) {
  const std::string uid = text_at(binding, "metadata.uid");
  const std::string version = text_at(binding, "metadata.resourceVersion");
  if (!uid.empty() && uid != pod.uid) {
    return conflict(kind, pod.fields[0],
                    "Precondition failed: UID in precondition: " + std::string(cut_text(uid, 100)) +
                        ", UID in object meta: " + pod.uid);
  }
  if (!version.empty() && version != std::to_string(pod.version)) {
    return conflict(kind, pod.fields[0],
                    "Precondition failed: ResourceVersion in precondition: " +
                        std::string(cut_text(version, 100)) +
                        ", ResourceVersion in object meta: " + std::to_string(pod.version));
  }
  return {};
}

// Why the pod cannot be bound; empty: it can.
std::string binding_problem(const Json& pod, const std::string& name) {
  if (!member_at(pod, "metadata.deletionTimestamp").is_null()) {
    return "pod " + name + " is being deleted, cannot be assigned to a host";
  }
  const std::string node = text_at(pod, "spec.nodeName");
  if (!node.empty()) return "pod " + name + " is already assigned to node \"" + node + "\"";
  if (member_at(pod, "spec.schedulingGates").empty()) return {};
  return "pod " + name + " has non-empty .spec.schedulingGates";
}

void set_scheduled(Json& pod, const std::string& now) {
  const Json scheduled = {{"type", "PodScheduled"},
                          {"status", "True"},
                          {"lastProbeTime", nullptr},
                          {"lastTransitionTime", now}};
  Json& conditions = pod["status"]["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  for (auto& condition : conditions) {
    if (text_at(condition, "type") != "PodScheduled") continue;
    condition = scheduled;
    return;
  }
  conditions.push_back(scheduled);
}

// The one write: node, annotations and labels, which are not validated here.
void set_bound(const Json& binding, const std::string& now, Json& pod) {
  pod["spec"]["nodeName"] = text_at(binding, "target.name");
  for (const char* const map : {"annotations", "labels"}) {
    for (const auto& [key, value] : member_at(binding, std::string("metadata.") + map).items()) {
      pod["metadata"][map][key] = value;
    }
  }
  set_scheduled(pod, now);
}

}  // namespace

Response serve_binding(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = served_kinds()[path.kind];
  Json binding;
  if (const auto refusal = read_body("Binding", request, binding)) return refuse(*refusal);
  if (const auto refusal = check_binding(path, binding)) return refuse(*refusal);
  const ObjectPtr old = cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!old) return refuse(not_found(kind, path.name));
  if (const auto refusal = check_preconditions(kind, *old, binding)) return refuse(*refusal);
  Json pod = Json::parse(old->text);
  const std::string problem = binding_problem(pod, path.name);
  if (!problem.empty()) {
    Refusal refusal = conflict(kind, path.name, problem);
    refusal.kind = "pods/binding";
    refusal.message =
        "Operation cannot be fulfilled on pods/binding " + in_quotes(path.name) + ": " + problem;
    return refuse(refusal);
  }
  set_bound(binding, cluster.timestamp(), pod);
  if (!is_dry_run(path)) cluster.commit(path.kind, pod, false);
  return answer(201, R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",)"
                     R"("code":201})");
}

}  // namespace mgpu::kube
