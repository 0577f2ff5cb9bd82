// A Transport used from a test's own thread: calls that wait for their answer, watches whose lines
// are waited for. The transport's executor runs on another thread; what does not come within half a
// minute fails the test.
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

  // The next line; none where the watch ended first.
  std::optional<std::string> next();
  // Waits for the end. Lines not taken are dropped.
  kube::Response end();
  bool opened();

 private:
  struct State;
  kube::Transport& transport_;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::test
