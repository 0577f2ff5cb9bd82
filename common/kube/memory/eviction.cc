// POST pods/{name}/eviction, in the order of checks of kubernetes
// pkg/registry/core/pod/storage/eviction.go (EvictionREST.Create, checkAndDecrement).
#include <string>
#include <utility>
#include <vector>

#include "common/kube/memory/object.h"
#include "common/kube/memory/verbs.h"
#include "common/kube/object_json.h"

namespace mgpu::kube {
namespace {

std::size_t budgets_kind() {
  std::size_t kind = 0;
  while (served_kinds()[kind].kind != "PodDisruptionBudget") ++kind;
  return kind;
}

// Those of the pod's namespace that select it.
std::vector<ObjectPtr> budgets_of(MemoryCluster& cluster, const Pod& pod) {
  ObjectFilter filter;
  filter.key_prefix = pod.metadata.name_space + "/";
  const auto all = cluster.collection(budgets_kind()).page(filter, cluster.version(), 0, "");
  std::vector<ObjectPtr> selecting;
  for (const ObjectPtr& object : all.items) {
    const auto budget = read_pod_disruption_budget(object->text);
    const bool selects =
        budget && budget->selector && matches(*budget->selector, pod.metadata.labels);
    if (selects) selecting.push_back(object);
  }
  return selecting;
}

// Nothing is disrupted where nothing runs.
bool needs_no_budget(const Pod& pod) {
  return pod.finished() || pod.phase == "Pending" || pod.metadata.being_deleted;
}

// Takes one disruption from the pod's budget, if it has one.
std::optional<Refusal> take_from_budget(MemoryCluster& cluster, const Pod& pod, bool dry_run) {
  if (needs_no_budget(pod)) return {};
  const auto budgets = budgets_of(cluster, pod);
  if (budgets.empty()) return {};
  if (budgets.size() > 1) {
    return Refusal{.code = 500,
                   .reason = "InternalError",
                   .message =
                       "This pod has more than one PodDisruptionBudget, which the eviction "
                       "subresource does not support."};
  }
  Json budget = Json::parse(budgets.front()->text);
  Json& allowed = budget["status"]["disruptionsAllowed"];
  const std::int64_t left = allowed.is_number_integer() ? allowed.get<std::int64_t>() : 0;
  if (left <= 0) {
    return Refusal{.code = 429,
                   .reason = "TooManyRequests",
                   .message = "Cannot evict pod as it would violate the pod's disruption budget."};
  }
  allowed = left - 1;
  if (!dry_run) cluster.commit(budgets_kind(), budget, false);
  return {};
}

}  // namespace

Response serve_eviction(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  Json eviction;
  if (const auto refusal = read_body("Eviction", request, eviction)) return refuse(*refusal);
  if (const auto problem = check_types(eviction)) return refuse(bad_request(problem->message));
  if (text_at(eviction, "metadata.name") != path.name) {
    return refuse(bad_request("name in URL does not match name in Eviction object"));
  }
  const ObjectPtr old = cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!old) return refuse(not_found(served_kinds()[path.kind], path.name));
  const auto pod = read_pod(old->text);
  if (!pod) return refuse(bad_request(pod.error().message));
  Request removal;
  removal.method = Method::kDelete;
  const Json& options = member(eviction, "deleteOptions");
  if (options.is_object()) removal.body = options.dump();
  const std::string uid = text_at(options, "preconditions.uid");
  if (uid.empty() || uid == old->uid) {
    const auto refusal = take_from_budget(cluster, *pod, is_dry_run(path));
    if (refusal) return refuse(*refusal);
  }
  const Response removed = serve_delete(cluster, path, removal);
  if (!removed.ok()) return removed;
  return answer(201, R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",)"
                     R"("code":201})");
}

}  // namespace mgpu::kube
