// Create, update, patch and delete of verbs.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "bench/apiserver/object.h"
#include "bench/apiserver/verbs.h"
#include "common/base/text.h"

namespace mgpu::kube {
namespace {

constexpr const char* kBodyTooLarge = "Request entity too large: limit is 3145728";

// Runs `check`, and throws a Refusal for the problem that it finds.
void check_object(const ServedKind& kind, std::string_view name, bool from_patch,
                  const std::function<void()>& check) try {
  check();
} catch (const ObjectProblem& problem) {
  if (problem.malformed && !from_patch) {
    throw bad_request(fmt::format("{0} in version \"v1\" cannot be handled as a {0}: {1}",
                                  kind.kind, problem.message));
  }
  throw Refusal{
      .code = 422,
      .reason = "Invalid",
      .message = fmt::format("{} {} is invalid: {}", kind.kind, in_quotes(name), problem.message),
      .name = std::string(name),
      .kind = std::string(kind.kind)};
}

// Kubernetes ignores the status that a client creates an object with.
void start_status(const ServedKind& kind, Json& object) {
  if (kind.kind == "Pod") object["status"] = {{"phase", "Pending"}};
  if (kind.kind == "PodDisruptionBudget") {
    object["status"] = {{"disruptionsAllowed", 0},
                        {"currentHealthy", 0},
                        {"desiredHealthy", 0},
                        {"expectedPods", 0}};
  }
}

void start_metadata(MemoryCluster& cluster, const ApiPath& path, Json& object) {
  if (!object["metadata"].is_object()) object["metadata"] = Json::object();
  Json& metadata = object["metadata"];
  const std::string name_space = text_at(metadata, "namespace");
  if (!name_space.empty() && name_space != path.name_space) {
    throw bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  }
  if (!text_at(metadata, "resourceVersion").empty()) {
    throw Refusal{.code = 500,
                  .message = "resourceVersion should not be set on objects to be created"};
  }
  metadata["uid"] = cluster.new_uid();
  const std::string prefix = text_at(metadata, "generateName");
  if (text_at(metadata, "name").empty() && !prefix.empty()) {
    metadata["name"] = prefix + text_at(metadata, "uid").substr(31);
  }
  if (!path.name_space.empty()) metadata["namespace"] = path.name_space;
  metadata["creationTimestamp"] = cluster.timestamp();
  metadata.erase("deletionTimestamp");
  metadata.erase("deletionGracePeriodSeconds");
}

// Gives `after` the member that `before` has.
void keep_member(const Json& before, Json& after, const char* name) {
  const Json& value = member(before, name);
  if (value.is_null()) {
    after.erase(name);
  } else {
    after[name] = value;
  }
}

// Checks the preconditions that the new object itself has.
void check_replacement(const ServedKind& kind, const StoredObject& before, const Json& after,
                       bool from_patch) {
  const std::string& name = before.fields[0];
  const std::string new_name = text_at(after, "metadata.name");
  if (new_name != name) {
    throw bad_request(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})",
                    cut_text(new_name, 100), name));
  }
  const std::string uid = text_at(after, "metadata.uid");
  if (from_patch && !uid.empty() && uid != before.uid) {
    check_object(kind, name, true, [] {
      throw ObjectProblem{false, "metadata.uid: Invalid value: field is immutable"};
    });
  }
  check_preconditions(kind, before, uid, "", kPreconditionFailed);
  const std::string version = text_at(after, "metadata.resourceVersion");
  if (version.empty() || version == std::to_string(before.version)) return;
  throw conflict(kind, name,
                 "the object has been modified; please apply your changes to the latest version "
                 "and try again");
}

Response replace(MemoryCluster& cluster, const ApiPath& path, const StoredObject& old, Json after,
                 bool from_patch) {
  const ServedKind& kind = path.served();
  const Json before = Json::parse(old.text);
  check_object(kind, path.name, from_patch, [&] { check_types(after); });
  if (!member(after, "metadata").is_object()) after["metadata"] = Json::object();
  check_replacement(kind, old, after, from_patch);
  after.erase("kind");
  after.erase("apiVersion");
  for (const char* const name :
       {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "generateName", "resourceVersion"}) {
    keep_member(before["metadata"], after["metadata"], name);
  }
  // A write changes the spec of an object or its status, never both.
  if (kind.has_status) keep_member(before, after, path.subresource == "status" ? "spec" : "status");
  check_object(kind, path.name, from_patch, [&] {
    set_defaults(kind, after);
    validate(kind, after);
    validate_update(kind, before, after);
  });
  if (after == before) return answer(200, full_text(kind, old));
  return store(cluster, path, after, 200);
}

struct DeleteOptions {
  std::optional<std::int64_t> grace_seconds;
  std::string uid;
  std::string version;
};

DeleteOptions read_delete_options(const ApiPath& path, const Request& request) {
  DeleteOptions options;
  if (!request.body.empty()) {
    const Json body = read_body("DeleteOptions", request);
    const Json& grace = member(body, "gracePeriodSeconds");
    if (!grace.is_null() && !grace.is_number_integer()) {
      throw bad_request("gracePeriodSeconds must be a whole number");
    }
    if (!grace.is_null()) options.grace_seconds = grace.get<std::int64_t>();
    options.uid = text_at(body, "preconditions.uid");
    options.version = text_at(body, "preconditions.resourceVersion");
  }
  const std::string_view grace = path.parameter("gracePeriodSeconds");
  if (grace.empty()) return options;
  const auto end = grace.data() + grace.size();
  if (std::from_chars(grace.data(), end, options.grace_seconds.emplace()).ptr != end) {
    throw bad_request("gracePeriodSeconds must be a whole number");
  }
  return options;
}

// Only a pod that a kubelet may be running has a grace period
// (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
std::int64_t grace_of(const Json& pod, const DeleteOptions& options) {
  const std::string phase = text_at(pod, "status.phase");
  if (text_at(pod, "spec.nodeName").empty() || phase == "Succeeded" || phase == "Failed") return 0;
  const Json& own = member_at(pod, "spec.terminationGracePeriodSeconds");
  const std::int64_t standard = own.is_number_integer() ? own.get<std::int64_t>() : 30;
  constexpr std::int64_t kYear = 366 * 24 * 3600;
  return std::clamp<std::int64_t>(options.grace_seconds.value_or(standard), 0, kYear);
}

Response delete_pod(MemoryCluster& cluster, const ApiPath& path, const StoredObject& old,
                    const DeleteOptions& options) {
  Json pod = Json::parse(old.text);
  Json& metadata = pod["metadata"];
  const std::int64_t grace = grace_of(pod, options);
  // A later delete can make the grace period shorter, not longer.
  const Json& set = member(metadata, "deletionGracePeriodSeconds");
  const bool sooner = !set.is_number_integer() || grace < set.get<std::int64_t>();
  if (grace != 0 && !sooner) return answer(200, full_text(path.served(), old));
  if (grace != 0) {
    metadata["deletionTimestamp"] = cluster.timestamp(std::chrono::seconds(grace));
    metadata["deletionGracePeriodSeconds"] = grace;
    return store(cluster, path, pod, 200);
  }
  if (is_dry_run(path)) return answer(200, full_text(path.served(), old));
  return answer(200, full_text(path.served(), *cluster.commit(path.kind, pod, true)));
}

}  // namespace

bool is_dry_run(const ApiPath& path) {
  return !path.parameter("dryRun").empty();
}

void check_size(const Json& object) {
  if (object.dump().size() <= kMemoryApiObjectBytesMax) return;
  throw Refusal{.code = 500, .message = "etcdserver: request is too large"};
}

Response store(MemoryCluster& cluster, const ApiPath& path, Json& object, int code) {
  const ServedKind& kind = path.served();
  if (is_dry_run(path)) return answer(code, full_text(kind, to_stored(kind, object, 0)));
  check_size(object);
  return answer(code, full_text(kind, *cluster.commit(path.kind, object, false)));
}

Json read_body(std::string_view kind, const Request& request) {
  if (request.body.size() > kMemoryApiBodyBytesMax) {
    throw Refusal{.code = 413, .reason = "RequestEntityTooLarge", .message = kBodyTooLarge};
  }
  Json object = read_json(request.body);
  if (!object.is_object()) {
    throw bad_request(
        fmt::format("the object provided is unrecognized (must be of type {}): it must be a JSON "
                    "object of moderate depth",
                    kind));
  }
  const std::string found = text_at(object, "kind");
  if (found.empty() || found == kind) return object;
  throw bad_request(
      fmt::format("{} in version \"v1\" cannot be handled as a {}", cut_text(found, 100), kind));
}

void check_preconditions(const ServedKind& kind, const StoredObject& object, std::string_view uid,
                         std::string_view version, std::string_view sentence) {
  const std::string found = std::to_string(object.version);
  const bool other_uid = !uid.empty() && uid != object.uid;
  if (!other_uid && (version.empty() || version == found)) return;
  throw conflict(
      kind, object.fields[0],
      fmt::format(fmt::runtime(sentence), other_uid ? "UID" : "ResourceVersion",
                  cut_text(other_uid ? uid : version, 100), other_uid ? object.uid : found));
}

Response serve_create(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = path.served();
  Json object = read_body(kind.kind, request);
  check_object(kind, "", false, [&] { check_types(object); });
  start_metadata(cluster, path, object);
  object.erase("kind");
  object.erase("apiVersion");
  start_status(kind, object);
  ApiPath created = path;
  created.name = text_at(object, "metadata.name");
  check_object(kind, created.name, false, [&] {
    set_defaults(kind, object);
    validate(kind, object);
  });
  if (cluster.collection(path.kind).find(created.key())) {
    Refusal refusal = conflict(kind, created.name, "");
    refusal.reason = "AlreadyExists";
    refusal.message = fmt::format("{} {} already exists", kind.plural, in_quotes(created.name));
    throw refusal;
  }
  return store(cluster, path, object, 201);
}

Response serve_update(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  Json object = read_body(path.served().kind, request);
  return replace(cluster, path, *find_object(cluster, path), std::move(object), false);
}

Response serve_patch(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  if (request.body.size() > kMemoryApiBodyBytesMax) return answer(413, kBodyTooLarge);
  const ObjectPtr old = find_object(cluster, path);
  Json object = Json::parse(full_text(path.served(), *old));
  apply_patch(object, request.content_type, request.body);
  return replace(cluster, path, *old, std::move(object), true);
}

Response serve_delete(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = path.served();
  const DeleteOptions options = read_delete_options(path, request);
  const ObjectPtr old = find_object(cluster, path);
  check_preconditions(kind, *old, options.uid, options.version,
                      "the {0} in the precondition ({1}) does not match the {0} in record ({2})");
  if (kind.kind == "Pod") return delete_pod(cluster, path, *old, options);
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
