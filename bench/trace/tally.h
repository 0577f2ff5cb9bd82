// What the decisions of a run cost, and which pods found no place.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/trace/cycle.h"

namespace mgpu::trace {

// Pods that fitted nowhere, by what they ask for: "none", "share", or the number of cards.
struct Failures {
  std::string size;
  std::int64_t pods = 0;
  double gpus = 0;
};

class Tally {
 public:
  void add(const TracePod& pod, const Outcome& outcome);

  std::int64_t decisions() const { return decisions_; }
  // Mean of filter, prioritize and assume; 0 before the first.
  double us_per_decision() const;
  // Every size that was asked for, ascending.
  std::vector<Failures> failures() const;

 private:
  std::map<std::int64_t, Failures> by_size_;
  std::int64_t decisions_ = 0;
  std::chrono::nanoseconds took_{0};
};

}  // namespace mgpu::trace
