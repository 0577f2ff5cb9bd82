// One open watch at the in-memory API server.
//
//   Waiting --start--> Open --end of time, drop, refusal--> Ended
//      any --close--> Ended, and no handler is called any more
//
// All functions run on the executor. Writers on any thread only fill its feed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/kube/memory/cluster.h"
#include "common/kube/memory/verbs.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

struct GuardedCluster {
  template <class... Args>
  explicit GuardedCluster(Args&&... args) : cluster(std::forward<Args>(args)...) {}

  Mutex mutex;
  MemoryCluster cluster MGPU_GUARDED_BY(mutex);
};

class MemoryWatch : public std::enable_shared_from_this<MemoryWatch> {
 public:
  MemoryWatch(Executor& executor, std::shared_ptr<GuardedCluster> guarded, StreamHandlers handlers)
      : executor_(executor), guarded_(std::move(guarded)), handlers_(std::move(handlers)) {}

  void start(WatchRequest request, Duration bookmark_interval);
  // The server's end of it, with what on_end gets.
  void end(Response response);
  // The client's end of it.
  void close();

 private:
  // False: history no longer holds the version asked for.
  bool attach(WatchRequest& request);
  void fail_as_expired(std::uint64_t version);
  void deliver();
  void send_bookmark();
  void expire();
  void send_lines(const std::deque<WatchFeed::Entry>& entries);
  // Calls `task` after `delay`, unless the watch is gone by then.
  Executor::TimerId after(Duration delay, void (MemoryWatch::*task)());

  Executor& executor_;
  std::shared_ptr<GuardedCluster> guarded_;
  StreamHandlers handlers_;
  std::shared_ptr<WatchFeed> feed_;
  std::size_t kind_ = 0;
  bool ended_ = false;
  Duration bookmark_interval_{0};
  std::optional<Executor::TimerId> timeout_;
  std::optional<Executor::TimerId> bookmark_;
};

}  // namespace mgpu::kube
