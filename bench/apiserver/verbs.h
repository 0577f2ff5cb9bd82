// One request to the in-memory API server and its answer. Protected by the mutex of the cluster's
// owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/apiserver/cluster.h"
#include "bench/apiserver/path.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Any request but a watch. It throws nothing.
Response serve(MemoryCluster& cluster, const Request& request);

// The parts of serve(). They throw a Refusal. serve() has checked the path: it has a name and a
// subresource if the verb needs them.
Response serve_get(MemoryCluster& cluster, const ApiPath& path);
Response serve_list(MemoryCluster& cluster, const ApiPath& path);
Response serve_create(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_update(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_patch(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_delete(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_binding(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_eviction(MemoryCluster& cluster, const ApiPath& path, const Request& request);

// What a watch requests, or why it is refused. It throws nothing.
struct WatchRequest {
  std::size_t kind = 0;
  ObjectFilter filter;
  std::optional<std::uint64_t> version;  // none: begin with the objects that exist
  std::optional<std::chrono::seconds> timeout;
  bool bookmarks = false;
  std::optional<Response> refused;
};
WatchRequest read_watch(const Request& request);

// Refuses an object that is larger than etcd accepts.
void check_size(const Json& object);

// The object of the path. Throws the 404.
ObjectPtr find_object(MemoryCluster& cluster, const ApiPath& path);
// The body, which must be an object of `kind`.
Json read_body(std::string_view kind, const Request& request);
// Throws a 409 if `uid` or `version` is not empty and not that of `object`. `sentence` is a format
// string for the name of the field, the precondition, and what the object has.
inline constexpr std::string_view kPreconditionFailed =
    "Precondition failed: {0} in precondition: {1}, {0} in object meta: {2}";
void check_preconditions(const ServedKind& kind, const StoredObject& object, std::string_view uid,
                         std::string_view version, std::string_view sentence);
// Writes `object`, unless it is too large or the request is a dry run. `code` is the answer's.
Response store(MemoryCluster& cluster, const ApiPath& path, Json& object, int code);
bool is_dry_run(const ApiPath& path);

}  // namespace mgpu::kube
