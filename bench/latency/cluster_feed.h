// A minimal API server, so that its client is measured and not the server. It lists the cluster of
// bench/scale, accepts every binding after a fixed delay and sends a watch event for the bound pod,
// and sends given watch lines. It stores no objects but the Lease, which it reads after the same
// delay.
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
  // REQUIRES: `executor` outlives the feed.
  ClusterFeed(Executor& executor, ClusterSize size);
  ~ClusterFeed() override;

  void send(kube::Request request, std::function<void(kube::Response)> done) override;
  std::unique_ptr<kube::Stream> stream(kube::Request request,
                                       kube::StreamHandlers handlers) override;
  Executor& executor() override;

  // Sends a line to the watch of pods. Thread-safe.
  void send_pod_line(std::string line);
  // Time that the latest binding waited here: for the Lease and for its own response. Thread-safe.
  std::chrono::nanoseconds bind_took() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// {"type": type, "object": object}
std::string watch_line(std::string_view type, std::string_view object);

}  // namespace mgpu::bench
