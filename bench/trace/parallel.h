// Runs the same work for several inputs on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace mgpu::trace {

// Calls work(0) .. work(count - 1), at most `jobs` at once, and returns when all have returned.
template <class Work>
void in_parallel(std::size_t count, std::size_t jobs, Work work) {
  std::atomic<std::size_t> next = 0;
  const auto work_until_done = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(jobs, count); ++i) threads.emplace_back(work_until_done);
  work_until_done();
}

}  // namespace mgpu::trace
