// Create, update and patch of memory_verbs.h.
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/kube/memory/limits.h"
#include "common/kube/memory/object.h"
#include "common/kube/memory/patch.h"
#include "common/kube/memory/verbs.h"

namespace mgpu::kube {
namespace {

Refusal refusal_of(const ServedKind& kind, std::string_view name, const ObjectProblem& problem,
                   bool from_patch) {
  if (problem.malformed && !from_patch) {
    return bad_request(std::string(kind.kind) + " in version \"v1\" cannot be handled as a " +
                       std::string(kind.kind) + ": " + problem.message);
  }
  return {
      .code = 422,
      .reason = "Invalid",
      .message = std::string(kind.kind) + " " + in_quotes(name) + " is invalid: " + problem.message,
      .name = std::string(name),
      .kind = std::string(kind.kind)};
}

// Kubernetes ignores what clients say of these.
void start_status(const ServedKind& kind, Json& object) {
  if (kind.kind == "Pod") object["status"] = {{"phase", "Pending"}};
  if (kind.kind == "PodDisruptionBudget") {
    object["status"] = {{"disruptionsAllowed", 0},
                        {"currentHealthy", 0},
                        {"desiredHealthy", 0},
                        {"expectedPods", 0}};
  }
}

std::optional<Refusal> start_metadata(MemoryCluster& cluster, const ApiPath& path, Json& object) {
  if (!object["metadata"].is_object()) object["metadata"] = Json::object();
  Json& metadata = object["metadata"];
  const std::string name_space = text_at(metadata, "namespace");
  if (!name_space.empty() && name_space != path.name_space) {
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  }
  if (!text_at(metadata, "resourceVersion").empty()) {
    return Refusal{.code = 500,
                   .message = "resourceVersion should not be set on objects to be created"};
  }
  metadata["uid"] = cluster.new_uid();
  const std::string prefix = text_at(metadata, "generateName");
  if (text_at(metadata, "name").empty() && !prefix.empty()) {
    metadata["name"] = prefix + text_at(metadata, "uid").substr(31);
  }
  if (!path.name_space.empty()) metadata["namespace"] = path.name_space;
  metadata["creationTimestamp"] = cluster.timestamp();
  for (const char* const name : {"deletionTimestamp", "deletionGracePeriodSeconds"}) {
    metadata.erase(name);
  }
  return {};
}

// Kept through every update, whatever the new object says.
void keep_metadata(const Json& before, Json& after) {
  Json& metadata = after["metadata"];
  for (const char* const name :
       {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "generateName", "resourceVersion"}) {
    const Json& value = member(before["metadata"], name);
    if (value.is_null()) {
      metadata.erase(name);
    } else {
      metadata[name] = value;
    }
  }
}

// The preconditions that the new object itself carries.
std::optional<Refusal> check_preconditions(const ServedKind& kind, const Json& before,
                                           const Json& after, bool from_patch) {
  const std::string name = text_at(before, "metadata.name");
  const std::string new_name = text_at(after, "metadata.name");
  if (new_name != name) {
    return bad_request("the name of the object (" + std::string(cut_text(new_name, 100)) +
                       ") does not match the name on the URL (" + name + ")");
  }
  const std::string uid = text_at(after, "metadata.uid");
  if (!uid.empty() && uid != text_at(before, "metadata.uid")) {
    if (from_patch) {
      return refusal_of(kind, name, {false, "metadata.uid: Invalid value: field is immutable"},
                        true);
    }
    return conflict(kind, name,
                    "Precondition failed: UID in precondition: " + std::string(cut_text(uid, 100)) +
                        ", UID in object meta: " + text_at(before, "metadata.uid"));
  }
  const std::string version = text_at(after, "metadata.resourceVersion");
  if (version.empty() || version == text_at(before, "metadata.resourceVersion")) return {};
  return conflict(kind, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

// A write to an object changes its spec or its status, never both.
void keep_other_half(const ServedKind& kind, const ApiPath& path, const Json& before, Json& after) {
  if (!kind.has_status) return;
  const char* const kept = path.subresource == "status" ? "spec" : "status";
  if (before.contains(kept)) {
    after[kept] = before[kept];
  } else {
    after.erase(kept);
  }
}

Response replace(MemoryCluster& cluster, const ApiPath& path, const ObjectPtr& old, Json after,
                 bool from_patch) {
  const ServedKind& kind = served_kinds()[path.kind];
  const Json before = Json::parse(old->text);
  if (const auto problem = check_types(after)) {
    return refuse(refusal_of(kind, path.name, *problem, from_patch));
  }
  if (!member(after, "metadata").is_object()) after["metadata"] = Json::object();
  if (const auto refusal = check_preconditions(kind, before, after, from_patch)) {
    return refuse(*refusal);
  }
  after.erase("kind");
  after.erase("apiVersion");
  keep_metadata(before, after);
  keep_other_half(kind, path, before, after);
  auto problem = set_defaults(kind, after);
  if (!problem) problem = validate(kind, after);
  if (!problem) problem = validate_update(kind, before, after);
  if (problem) return refuse(refusal_of(kind, path.name, *problem, from_patch));
  if (after == before) return answer(200, full_text(kind, *old));
  return store(cluster, path, after, 200);
}

}  // namespace

bool is_dry_run(const ApiPath& path) {
  return !path.parameter("dryRun").empty();
}

Response store(MemoryCluster& cluster, const ApiPath& path, Json& object, int code) {
  const ServedKind& kind = served_kinds()[path.kind];
  if (object.dump().size() > kMemoryApiObjectBytesMax) {
    return refuse({.code = 500, .message = "etcdserver: request is too large"});
  }
  if (is_dry_run(path)) return answer(code, full_text(kind, to_stored(kind, object, 0)));
  return answer(code, full_text(kind, *cluster.commit(path.kind, object, false)));
}

std::optional<Refusal> read_body(std::string_view kind, const Request& request, Json& object) {
  if (request.body.size() > kMemoryApiBodyBytesMax) {
    return Refusal{.code = 413,
                   .reason = "RequestEntityTooLarge",
                   .message = "Request entity too large: limit is 3145728"};
  }
  auto read = read_json(request.body);
  if (!read || !read->is_object()) {
    return bad_request("the object provided is unrecognized (must be of type " + std::string(kind) +
                       "): it must be a JSON object of moderate depth");
  }
  const std::string found = text_at(*read, "kind");
  if (!found.empty() && found != kind) {
    return bad_request(std::string(cut_text(found, 100)) +
                       " in version \"v1\" cannot be handled as a " + std::string(kind));
  }
  object = *std::move(read);
  return {};
}

Response serve_create(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = served_kinds()[path.kind];
  Json object;
  if (const auto refusal = read_body(kind.kind, request, object)) return refuse(*refusal);
  if (const auto problem = check_types(object)) {
    return refuse(refusal_of(kind, "", *problem, false));
  }
  if (const auto refusal = start_metadata(cluster, path, object)) return refuse(*refusal);
  object.erase("kind");
  object.erase("apiVersion");
  start_status(kind, object);
  const std::string name = text_at(object, "metadata.name");
  auto problem = set_defaults(kind, object);
  if (!problem) problem = validate(kind, object);
  if (problem) return refuse(refusal_of(kind, name, *problem, false));
  if (cluster.collection(path.kind).find(object_key(path.name_space, name))) {
    Refusal refusal = conflict(kind, name, "");
    refusal.reason = "AlreadyExists";
    refusal.message = std::string(kind.plural) + " " + in_quotes(name) + " already exists";
    return refuse(refusal);
  }
  return store(cluster, path, object, 201);
}

Response serve_update(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = served_kinds()[path.kind];
  Json object;
  if (const auto refusal = read_body(kind.kind, request, object)) return refuse(*refusal);
  const ObjectPtr old = cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!old) return refuse(not_found(kind, path.name));
  return replace(cluster, path, old, std::move(object), false);
}

Response serve_patch(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const ServedKind& kind = served_kinds()[path.kind];
  if (request.body.size() > kMemoryApiBodyBytesMax) {
    return answer(413, "Request entity too large: limit is 3145728");
  }
  const ObjectPtr old = cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!old) return refuse(not_found(kind, path.name));
  Json object = Json::parse(full_text(kind, *old));
  if (const auto refusal = apply_patch(object, request.content_type, request.body)) {
    return refuse(*refusal);
  }
  return replace(cluster, path, old, std::move(object), true);
}

}  // namespace mgpu::kube
