// One request to the in-memory API server and its answer. Guarded by the cluster's owner.
#pragma once

#include <memory>
#include <optional>

#include "common/kube/memory/cluster.h"
#include "common/kube/memory/path.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Any request but a watch.
Response serve(MemoryCluster& cluster, const Request& request);

// The parts of serve(), by method. The path has passed: names and subresources are where the
// method takes them.
Response serve_get(MemoryCluster& cluster, const ApiPath& path);
Response serve_list(MemoryCluster& cluster, const ApiPath& path);
Response serve_create(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_update(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_patch(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_delete(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_binding(MemoryCluster& cluster, const ApiPath& path, const Request& request);
Response serve_eviction(MemoryCluster& cluster, const ApiPath& path, const Request& request);

// What a watch asks for, or why it is refused.
struct WatchRequest {
  std::size_t kind = 0;
  ObjectFilter filter;
  std::optional<std::uint64_t> version;  // none: begin with the objects that are there
  std::optional<std::chrono::seconds> timeout;
  bool bookmarks = false;
  std::optional<Response> refused;
};
WatchRequest read_watch(const Request& request);

// Shared by lists and watches.
std::optional<Refusal> read_filter(const ApiPath& path, ObjectFilter& filter);
// Writes `object`, unless it is too large or the request is a dry run. `code`: of the answer.
Response store(MemoryCluster& cluster, const ApiPath& path, Json& object, int code);
bool is_dry_run(const ApiPath& path);
// The body as an object of the kind that is expected there.
std::optional<Refusal> read_body(std::string_view kind, const Request& request, Json& object);

}  // namespace mgpu::kube
