// Blocking calls and watches over a Transport whose executor runs on another thread. A response or
// line that does not arrive within half a minute fails the test.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/kube/transport.h"

namespace mgpu::test {

kube::Response call_and_wait(kube::Transport& transport, kube::Request request);

class WatchLog {
 public:
  WatchLog(kube::Transport& transport, kube::Request request);
  ~WatchLog();

  // Waits for the next line; empty if the watch ends first.
  std::optional<std::string> next();
  // Waits for the end of the watch, and discards the remaining lines.
  kube::Response end();
  bool opened();
  // Of the events, once it is open.
  kube::Encoding encoding() const;

 private:
  struct State;
  kube::Transport& transport_;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::test
