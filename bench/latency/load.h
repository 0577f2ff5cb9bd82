// What changes a busy cluster while requests are measured: watch events that delete pods and bring
// them back, and pods that are filtered, bound, seen bound and deleted. On a thread of its own.
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
  std::size_t binds_per_s = 0;  // each is two watch events more
};

class Load {
 public:
  // Begins at once; both outlive the load.
  Load(Servers& servers, LoadRate rate);
  // Ends it.
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  std::size_t events() const { return events_; }
  std::size_t binds() const { return binds_; }
  // Binds that did not come through, and calls that failed.
  std::size_t failures() const { return failures_; }

 private:
  void run();
  void send_event();
  void bind_one_pod(class Client& client);

  Servers& servers_;
  const LoadRate rate_;
  std::vector<std::string> lines_;  // DELETED and ADDED of one pod after the other
  std::atomic<std::size_t> events_{0};
  std::atomic<std::size_t> binds_{0};
  std::atomic<std::size_t> failures_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace mgpu::bench
