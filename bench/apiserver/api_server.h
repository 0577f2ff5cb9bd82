// An API server in memory, with the same Transport interface as the client of a real one. It has
// the same HTTP paths and JSON, and one conformance suite (test/common/kube/conformance) checks
// that both behave the same:
//
//   nodes, pods, poddisruptionbudgets, events, csistoragecapacities, leases, services,
//   endpointslices, secrets: create, get, list, update, patch (all kinds), delete; status
//   subresources; pods/binding; pods/eviction
//   - resourceVersion rises with every write; uid and resourceVersion preconditions give 409
//   - list pages with limit/continue over one snapshot; an old continue token gives 410 Expired
//   - watches: from a resourceVersion (410 Gone when history no longer holds it), bookmarks, field
//     selectors (an object that stops matching arrives as DELETED), timeoutSeconds
//   - binding: nodeName and annotations in one write, preconditions on uid and resourceVersion,
//     second bind 409, pod gone 404, pod being deleted 409
//   - eviction: a delete that a disruption budget can refuse (429)
//   - quantities are stored in canonical form ("8000" -> "8k"); extended resources must be whole
//
// It differs where nothing here depends on it: every namespace exists, a strategic merge patch
// replaces every list but status.conditions, unknown members are kept, there are no JSON patches,
// label selectors, managed fields, finalizers or admission.
//
// A subclass of the tests (test/support/faulty_api_server.h) adds faults, and reviews of tokens and
// rights.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/base/mutex.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

struct GuardedCluster;
class MemoryWatch;

class MemoryApiServer : public Transport {
 public:
  struct Options {
    std::size_t history_events = 100'000;  // per collection; an older resourceVersion gives 410
    Duration bookmark_interval{60'000};
    // The wall-clock time of the construction, for creationTimestamp and the like; none: the
    // machine's.
    std::optional<std::chrono::sys_seconds> start = {};
  };

  // `executor` outlives the server.
  MemoryApiServer(Executor& executor, Options options);
  // REQUIRES: on the executor, or while it runs nothing.
  ~MemoryApiServer() override;

  void send(Request request, std::function<void(Response)> done) override;
  std::unique_ptr<Stream> stream(Request request, StreamEvents events) override;
  Executor& executor() override { return executor_; }

  // Serves one request at once, on the caller's thread. A watch is answered as a list. Safe for
  // concurrent use.
  Response call(const Request& request);

  // Removes all history, as etcd's compaction does: older resourceVersions and continue tokens give
  // 410. Safe for concurrent use.
  void compact();

 private:
  Executor& executor_;
  const Options options_;
  const std::shared_ptr<GuardedCluster> guarded_;
  Mutex mutex_;  // never held together with that of guarded_
  // The open watches, and some that have ended.
  std::vector<std::weak_ptr<MemoryWatch>> watches_ MGPU_GUARDED_BY(mutex_);
  CallbackGuard callbacks_;
};

}  // namespace mgpu::kube
