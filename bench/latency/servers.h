// The three compared servers, which run in this process and use the HTTP server of common/http:
//
//   extender  mgpu-extender with a minimal API server (cluster_feed.h)
//   echo      reads the request and responds with a given number of bytes. The path /late adds the
//             delay of the extender's API server
//   naive     the simple extender of naive.h
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "bench/latency/cluster_feed.h"
#include "bench/latency/naive.h"
#include "common/base/asio_executor.h"
#include "common/base/result.h"
#include "common/http/server.h"
#include "extender/extender.h"

namespace mgpu::bench {

class Servers {
 public:
  // Starts all servers and waits until the extender is ready.
  static Result<std::unique_ptr<Servers>> start(ClusterSize size, std::size_t threads,
                                                const std::string& policy);
  ~Servers();

  std::uint16_t extender_port() const { return extender_->port(); }
  std::uint16_t echo_port() const { return echo_->port(); }
  std::uint16_t naive_port() const { return naive_server_->port(); }
  ClusterFeed& feed() { return feed_; }
  ClusterSize size() const { return size_; }
  // Time from the extender's start until it was ready, including the creation of the objects.
  std::chrono::milliseconds ready_after() const { return ready_after_; }
  void echo_bytes(std::size_t bytes) { echo_bytes_ = bytes; }

 private:
  explicit Servers(ClusterSize size);
  Result<void> start_extender(std::size_t threads, const std::string& policy);
  void answer_echo(const http::Request& request, const http::Respond& respond);
  Result<void> start_echo(std::size_t threads);
  Result<void> start_naive(std::size_t threads);

  const ClusterSize size_;
  AsioExecutor executor_;
  ClusterFeed feed_;
  const NaiveExtender naive_;
  std::atomic<std::size_t> echo_bytes_{0};
  std::chrono::milliseconds ready_after_{0};
  std::unique_ptr<extender::Extender> extender_;
  std::unique_ptr<http::Server> echo_;
  std::unique_ptr<http::Server> naive_server_;
};

}  // namespace mgpu::bench
