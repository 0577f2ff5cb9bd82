// A background load while requests are measured: watch events that delete and add pods, and pods
// that are filtered, bound and deleted. It runs on its own thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "bench/latency/servers.h"

namespace mgpu::bench {

struct LoadRate {
  std::size_t events_per_s = 0;
  std::size_t binds_per_s = 0;  // each bind causes two more watch events
};

class Load {
 public:
  // Starts the load. REQUIRES: `servers` outlives it.
  Load(Servers& servers, LoadRate rate);
  // Stops the load.
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  std::size_t events() const { return events_; }
  std::size_t binds() const { return binds_; }
  // Number of failed binds and calls.
  std::size_t failures() const { return failures_; }

 private:
  void run();
  void send_event();
  void bind_one_pod(class Client& client);

  Servers& servers_;
  const LoadRate rate_;
  std::vector<std::string> lines_;  // DELETED and ADDED of each pod
  std::atomic<std::size_t> events_{0};
  std::atomic<std::size_t> binds_{0};
  std::atomic<std::size_t> failures_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace mgpu::bench
