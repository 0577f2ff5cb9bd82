// POST pods/{name}/binding and pods/{name}/eviction, in the order of checks of kubernetes
// pkg/registry/core/pod/storage: storage.go (BindingREST.Create, setPodNodeAndMetadata) and
// eviction.go (EvictionREST.Create, checkAndDecrement).
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "bench/apiserver/object.h"
#include "bench/apiserver/verbs.h"
#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {
namespace {

constexpr const char* kSuccess =
    R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})";

Json binding_json(const Binding& binding) {
  Json metadata = {{"name", binding.pod.name},
                   {"namespace", binding.pod.name_space},
                   {"uid", binding.uid.str()},
                   {"annotations", binding.annotations}};
  if (!binding.resource_version.empty()) metadata["resourceVersion"] = binding.resource_version;
  return {{"apiVersion", "v1"},
          {"kind", "Binding"},
          {"metadata", std::move(metadata)},
          {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", binding.node.str()}}}};
}

// The body of a subresource, which must name the pod of the path.
Json read_subresource(std::string_view kind, const ApiPath& path, const Request& request) {
  Json body = read_body(kind, request);
  try {
    check_types(body);
  } catch (const ObjectProblem& problem) {
    throw bad_request(problem.message);
  }
  if (text_at(body, "metadata.name") == path.name) return body;
  throw bad_request(fmt::format("name in URL does not match name in {} object", kind));
}

Json read_binding(const ApiPath& path, Request request) {
  if (request.content_type == kProtobufType) {
    const auto read = read_binding_protobuf(request.body);
    if (!read) throw bad_request(read.error().message);
    request.body = binding_json(*read).dump();
    request.content_type = "application/json";
  }
  return read_subresource("Binding", path, request);
}

// Why the pod cannot be bound; empty: it can.
std::string binding_problem(const Json& pod, const std::string& name) {
  if (!member_at(pod, "metadata.deletionTimestamp").is_null()) {
    return fmt::format("pod {} is being deleted, cannot be assigned to a host", name);
  }
  const std::string node = text_at(pod, "spec.nodeName");
  if (!node.empty()) return fmt::format("pod {} is already assigned to node \"{}\"", name, node);
  if (member_at(pod, "spec.schedulingGates").empty()) return {};
  return fmt::format("pod {} has non-empty .spec.schedulingGates", name);
}

// Sets node, annotations and labels, which are not validated here, and the condition PodScheduled.
void set_bound(const Json& binding, const std::string& now, Json& pod) {
  pod["spec"]["nodeName"] = text_at(binding, "target.name");
  for (const char* const map : {"annotations", "labels"}) {
    for (const auto& [key, value] : member(member(binding, "metadata"), map).items()) {
      pod["metadata"][map][key] = value;
    }
  }
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

// Subtracts one disruption from the budget that selects the pod, if there is one.
void take_from_budget(MemoryCluster& cluster, const Pod& pod, bool dry_run) {
  // A pod that does not run needs no budget.
  if (pod.finished() || pod.phase == "Pending" || pod.metadata.being_deleted) return;
  std::size_t kind = 0;
  while (served_kinds()[kind].kind != "PodDisruptionBudget") ++kind;
  const ObjectFilter of_namespace{pod.metadata.name_space + "/", {}};
  ObjectPtr selecting;
  for (const ObjectPtr& object :
       cluster.collection(kind).page(of_namespace, cluster.version(), 0, "").items) {
    const auto budget = read_pod_disruption_budget(object->text);
    if (!budget || !budget->selector) continue;
    if (!matches(*budget->selector, pod.metadata.labels)) continue;
    if (selecting) {
      throw Refusal{.code = 500,
                    .reason = "InternalError",
                    .message =
                        "This pod has more than one PodDisruptionBudget, which the eviction "
                        "subresource does not support."};
    }
    selecting = object;
  }
  if (!selecting) return;
  Json budget = Json::parse(selecting->text);
  Json& allowed = budget["status"]["disruptionsAllowed"];
  const std::int64_t left = allowed.is_number_integer() ? allowed.get<std::int64_t>() : 0;
  if (left <= 0) {
    throw Refusal{.code = 429,
                  .reason = "TooManyRequests",
                  .message = "Cannot evict pod as it would violate the pod's disruption budget."};
  }
  allowed = left - 1;
  if (!dry_run) cluster.commit(kind, budget, false);
}

}  // namespace

Response serve_binding(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const Json binding = read_binding(path, request);
  // Kubernetes gives these two no status of their own, so that they become 500.
  const std::string kind = text_at(binding, "target.kind");
  if (!kind.empty() && kind != "Node") {
    throw Refusal{.code = 500, .message = "target.kind: Unsupported value: " + in_quotes(kind)};
  }
  if (text_at(binding, "target.name").empty()) {
    throw Refusal{.code = 500, .message = "target.name: Required value"};
  }
  const ObjectPtr old = find_object(cluster, path);
  check_preconditions(path.served(), *old, text_at(binding, "metadata.uid"),
                      text_at(binding, "metadata.resourceVersion"), kPreconditionFailed);
  Json pod = Json::parse(old->text);
  const std::string problem = binding_problem(pod, path.name);
  if (!problem.empty()) {
    Refusal refusal = conflict(path.served(), path.name, problem);
    refusal.kind = "pods/binding";
    refusal.message = fmt::format("Operation cannot be fulfilled on pods/binding {}: {}",
                                  in_quotes(path.name), problem);
    throw refusal;
  }
  set_bound(binding, cluster.timestamp(), pod);
  if (is_dry_run(path)) return answer(201, kSuccess);
  check_size(pod);
  cluster.commit(path.kind, pod, false);
  return answer(201, kSuccess);
}

Response serve_eviction(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const Json eviction = read_subresource("Eviction", path, request);
  const ObjectPtr old = find_object(cluster, path);
  const auto pod = read_pod(old->text);
  if (!pod) throw bad_request(pod.error().message);
  Request removal;
  removal.method = Method::kDelete;
  const Json& options = member(eviction, "deleteOptions");
  if (options.is_object()) removal.body = options.dump();
  const std::string uid = text_at(options, "preconditions.uid");
  if (uid.empty() || uid == old->uid) take_from_budget(cluster, *pod, is_dry_run(path));
  serve_delete(cluster, path, removal);
  return answer(201, kSuccess);
}

}  // namespace mgpu::kube
