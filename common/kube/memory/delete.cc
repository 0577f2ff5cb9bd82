// Delete of memory_verbs.h: at once, but for a pod that a kubelet may be running
// (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "common/base/text.h"
#include "common/kube/memory/object.h"
#include "common/kube/memory/verbs.h"

namespace mgpu::kube {
namespace {

struct DeleteOptions {
  std::optional<std::int64_t> grace_seconds;
  std::string uid;
  std::string version;
};

std::optional<Refusal> read_delete_options(const Request& request, DeleteOptions& options) {
  if (request.body.empty()) return {};
  Json body;
  if (auto refusal = read_body("DeleteOptions", request, body)) return refusal;
  const Json& grace = member(body, "gracePeriodSeconds");
  if (grace.is_number_integer()) options.grace_seconds = grace.get<std::int64_t>();
  if (!grace.is_null() && !grace.is_number_integer()) {
    return bad_request("gracePeriodSeconds must be a whole number");
  }
  options.uid = text_at(body, "preconditions.uid");
  options.version = text_at(body, "preconditions.resourceVersion");
  return {};
}

std::optional<Refusal> check_delete(const ServedKind& kind, const StoredObject& object,
                                    const DeleteOptions& options) {
  if (!options.uid.empty() && options.uid != object.uid) {
    return conflict(kind, object.fields[0],
                    "the UID in the precondition (" + std::string(cut_text(options.uid, 100)) +
                        ") does not match the UID in record (" + object.uid + ")");
  }
  if (!options.version.empty() && options.version != std::to_string(object.version)) {
    return conflict(kind, object.fields[0],
                    "the ResourceVersion in the precondition (" +
                        std::string(cut_text(options.version, 100)) +
                        ") does not match the ResourceVersion in record (" +
                        std::to_string(object.version) + ")");
  }
  return {};
}

// Only a pod that a kubelet may be running is given time.
std::int64_t grace_of(const Json& pod, const DeleteOptions& options) {
  const std::string phase = text_at(pod, "status.phase");
  if (text_at(pod, "spec.nodeName").empty() || phase == "Succeeded" || phase == "Failed") return 0;
  const Json& own = member_at(pod, "spec.terminationGracePeriodSeconds");
  const std::int64_t standard = own.is_number_integer() ? own.get<std::int64_t>() : 30;
  constexpr std::int64_t kYear = 366 * 24 * 3600;
  return std::clamp<std::int64_t>(options.grace_seconds.value_or(standard), 0, kYear);
}

// True when the pod goes on: its end is announced, or was already, and no later than now asked.
bool begin_termination(MemoryCluster& cluster, Json& pod, std::int64_t grace, bool& changed) {
  Json& metadata = pod["metadata"];
  const Json& set = member(metadata, "deletionGracePeriodSeconds");
  changed = !set.is_number_integer() || grace < set.get<std::int64_t>();
  if (!changed || grace == 0) return grace != 0;
  metadata["deletionTimestamp"] = cluster.timestamp(std::chrono::seconds(grace));
  metadata["deletionGracePeriodSeconds"] = grace;
  return true;
}

Response delete_pod(MemoryCluster& cluster, const ApiPath& path, const ObjectPtr& old,
                    const DeleteOptions& options) {
  Json pod = Json::parse(old->text);
  bool changed = false;
  if (begin_termination(cluster, pod, grace_of(pod, options), changed)) {
    return changed ? store(cluster, path, pod, 200)
                   : answer(200, full_text(served_kinds()[path.kind], *old));
  }
  if (is_dry_run(path)) return serve_get(cluster, path);
  return answer(200, full_text(served_kinds()[path.kind], *cluster.commit(path.kind, pod, true)));
}

}  // namespace

Response serve_delete(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = served_kinds()[path.kind];
  DeleteOptions options;
  if (const auto refusal = read_delete_options(request, options)) return refuse(*refusal);
  const std::string_view grace = path.parameter("gracePeriodSeconds");
  std::int64_t seconds = 0;
  if (!grace.empty()) {
    const auto end = grace.data() + grace.size();
    if (std::from_chars(grace.data(), end, seconds).ptr != end) {
      return refuse(bad_request("gracePeriodSeconds must be a whole number"));
    }
    options.grace_seconds = seconds;
  }
  const ObjectPtr old = cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!old) return refuse(not_found(kind, path.name));
  if (const auto refusal = check_delete(kind, *old, options)) return refuse(*refusal);
  if (kind.kind == "Pod") return delete_pod(cluster, path, old, options);
  Json object = Json::parse(old->text);
  if (!is_dry_run(path)) cluster.commit(path.kind, object, true);
  const Json status = {
      {"kind", "Status"},
      {"apiVersion", "v1"},
      {"metadata", Json::object()},
      {"status", "Success"},
      {"details", {{"name", path.name}, {"kind", kind.plural}, {"uid", old->uid}}}};
  return answer(200, status.dump());
}

}  // namespace mgpu::kube
