// Number and duration of the decisions of a run.
#pragma once

#include <chrono>
#include <cstdint>

#include "bench/trace/cycle.h"

namespace mgpu::trace {

struct DecisionStats {
  void add(const Outcome& outcome) {
    ++decisions;
    if (!outcome.node) ++unplaced;
    took += outcome.took;
  }
  // Mean time of filter, prioritize and assume; 0 before the first decision.
  double us_per_decision() const {
    if (decisions == 0) return 0;
    return std::chrono::duration<double, std::micro>(took).count() / static_cast<double>(decisions);
  }

  std::int64_t decisions = 0;
  std::int64_t unplaced = 0;  // for pods that fitted on no node
  std::chrono::nanoseconds took{0};
};

}  // namespace mgpu::trace
