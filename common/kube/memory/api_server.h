// An API server in memory: the twin of the real one behind the Transport seam. It speaks the same
// HTTP paths and JSON, and one conformance suite (test/common/kube/conformance) holds both to the
// same behaviour:
//
//   nodes, pods, poddisruptionbudgets, events, csistoragecapacities: create, get, list, update,
//   patch (all kinds), delete; status subresources; pods/binding; pods/eviction
//   - resourceVersion rises with every write; uid and resourceVersion preconditions give 409
//   - list pages with limit/continue over one snapshot; an old continue token gives 410 Expired
//   - watches: from a resourceVersion (410 Gone when history no longer holds it), bookmarks, field
//     selectors (an object that stops matching arrives as DELETED), timeoutSeconds
//   - binding: nodeName and annotations in one write, uid precondition, second bind 409, pod gone
//     404, pod being deleted 409
//   - eviction: a delete that a disruption budget can refuse (429)
//   - quantities are stored in canonical form ("8000" -> "8k"); extended resources must be whole
//
// It differs where nothing here depends on it: every namespace exists, a strategic merge patch
// replaces every list but status.conditions, unknown members are kept, there are no label
// selectors, managed fields, finalizers or admission.
//
// Faults can be injected, for what a real server does only under stress.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/kube/transport.h"

namespace mgpu::kube {

// What to do with one request instead of, or around, serving it.
struct Fault {
  enum class Kind {
    kAnswer,      // `status` and `body`, nothing is done
    kRefuse,      // connection refused: never sent
    kLoseAnswer,  // do it, then lose the connection
    kDelay,       // do it, answer after `delay`
  };
  Kind kind = Kind::kAnswer;
  int status = 503;
  std::string body = {};
  Duration delay{0};
  std::optional<Duration> retry_after = {};
};

class MemoryApiServer final : public Transport {
 public:
  struct Options {
    std::size_t history_events = 100'000;  // per collection, before a watch is "too old"
    Duration bookmark_interval{60'000};
    Duration answer_delay{0};  // added to every answer
    // Wall-clock time at construction, for creationTimestamp and the like; none: the machine's.
    std::optional<std::chrono::sys_seconds> start = {};
  };

  // `executor` outlives the server.
  MemoryApiServer(Executor& executor, Options options);
  // REQUIRES: on the executor, or while it runs nothing.
  ~MemoryApiServer() override;

  void send(Request request, std::function<void(Response)> done) override;
  std::unique_ptr<Stream> stream(Request request, StreamHandlers handlers) override;
  Executor& executor() override;

  // Serves one request at once, on the caller's thread, without faults and delays. A watch is
  // answered as a list. Safe for concurrent use.
  Response call(const Request& request);

  // Asked once for each send() and stream(), on the caller's thread; none: no fault. Safe for
  // concurrent use.
  void set_faults(std::function<std::optional<Fault>(const Request&)> faults);
  // Ends every open watch as a lost connection; lines not yet delivered are lost. Safe for
  // concurrent use, as is compact().
  void drop_watches();
  // Forgets history, as etcd compaction does: older resourceVersions and continue tokens are 410.
  void compact();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::kube
