// One open watch at the in-memory API server.
//
//   Waiting --start--> Open --timeout, refusal--> Ended
//      any --close--> Ended, and no handler is called any more
//
// All functions run on the executor. Writers on any thread only append to its queue.
#pragma once

#include <memory>
#include <optional>

#include "bench/apiserver/cluster.h"
#include "bench/apiserver/verbs.h"
#include "common/base/executor.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

class MemoryWatch : public std::enable_shared_from_this<MemoryWatch> {
 public:
  MemoryWatch(Executor& executor, std::shared_ptr<GuardedCluster> guarded, StreamEvents events)
      : executor_(executor), guarded_(std::move(guarded)), events_(std::move(events)) {}

  void start(WatchRequest request, Duration bookmark_interval);
  // The client ends the watch.
  void close();

 private:
  // The server ends the watch: on_end gets `response`.
  void end(Response response);
  void fail_as_expired(std::uint64_t version);
  // Sends the lines of the queue; with `bookmark` also a bookmark of the newest version.
  void deliver(bool bookmark);
  // Calls `task` after `delay`, unless the watch no longer exists then.
  Executor::TimerId after(Duration delay, std::function<void(MemoryWatch&)> task);

  Executor& executor_;
  std::shared_ptr<GuardedCluster> guarded_;
  StreamEvents events_;
  std::shared_ptr<WatchQueue> queue_;
  std::size_t kind_ = 0;
  bool ended_ = false;
  Duration bookmark_interval_{0};
  std::optional<Executor::TimerId> timeout_;
  std::optional<Executor::TimerId> bookmark_;
};

}  // namespace mgpu::kube
