// Keeps a consumer equal to a collection at the API server: a Watcher, driven over a Transport.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/kube/request.h"
#include "common/kube/transport.h"
#include "common/kube/watcher.h"

namespace mgpu::kube {

// Called on the transport's executor, one at a time.
struct ReflectorHandlers {
  std::function<void(const WatchEvent&)> on_event;
  // One sentence when listing or watching failed (it goes on by itself), for the log.
  std::function<void(const std::string&)> on_problem;
  // An object that a watch sent and that cannot be read, and why: one sentence. It was skipped.
  std::function<void(const std::string&)> on_unreadable{};
};

class Reflector {
 public:
  // `transport` outlives the reflector.
  Reflector(std::string name, Resource resource, Transport& transport, ReflectorHandlers handlers);
  // Safe from any thread that is not the executor's own, while the executor runs: waits until no
  // handler is running. On the executor itself: immediate.
  ~Reflector();

  void start();
  // A relist has been completed. Any thread.
  bool synced() const;
  // Milliseconds since the server was last heard of (a page, a line, a bookmark). Any thread.
  Duration silent_for() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::kube
