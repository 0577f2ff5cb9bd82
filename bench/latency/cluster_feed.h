// An API server that costs next to nothing, so that what is measured is its client: it lists the
// cluster of bench/scale, takes every binding after a fixed delay and shows the pod bound, and
// sends the watch lines that it is told to send. It keeps no objects.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/kube/transport.h"

namespace mgpu::bench {

struct ClusterSize {
  std::size_t nodes = 0;
  std::size_t pods = 0;
};

class ClusterFeed final : public kube::Transport {
 public:
  // `executor` outlives the feed.
  ClusterFeed(Executor& executor, ClusterSize size);
  ~ClusterFeed() override;

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request,
                                       kube::StreamHandlers handlers) override;
  Executor& executor() override;

  // To the watch of pods. Any thread.
  void send_pod_line(std::string line);
  // Of the newest binding, from its arrival here to its answer. Any thread.
  std::chrono::nanoseconds bind_took() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// {"type": type, "object": object}
std::string watch_line(std::string_view type, std::string_view object);

}  // namespace mgpu::bench
