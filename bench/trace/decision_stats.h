// Duration of the decisions of a run, and the pods that could not be placed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/trace/cycle.h"

namespace mgpu::trace {

// Pods of one size that fitted on no node. The size is "none", "share" or the number of cards.
struct Failures {
  std::string size;
  std::int64_t pods = 0;
  double gpus = 0;
};

class DecisionStats {
 public:
  void add(const TracePod& pod, const Outcome& outcome);

  std::int64_t decisions() const { return decisions_; }
  // Mean time of filter, prioritize and assume; 0 before the first decision.
  double us_per_decision() const;
  // One entry for every requested size, ascending.
  std::vector<Failures> failures() const;

 private:
  std::map<std::int64_t, Failures> by_size_;
  std::int64_t decisions_ = 0;
  std::chrono::nanoseconds took_{0};
};

}  // namespace mgpu::trace
