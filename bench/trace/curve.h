// What a run looks like against the workload that has arrived. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace mgpu::trace {

struct CurvePoint {
  std::int64_t arrived = 0;  // percent of the cluster's cards asked for so far
  // Percent of all cards' compute that is held: the mean over the arrivals that round (half to
  // even) to `arrived`, each first rounded to two decimals. As the published results have it.
  double allocation = 0;
  double fragmentation_amount = 0;  // expected fragmentation, percent of all cards' compute
  double fragmentation_rate = 0;    // the same, percent of the compute that is free
};

// What stands after one arrival, whether it was placed or not; thousandths of a card.
struct Standing {
  std::int64_t arrived_milli = 0;
  std::int64_t allocated_milli = 0;
  double fragmentation_milli = 0;
};

class Curve {
 public:
  // REQUIRES: capacity_milli > 0.
  explicit Curve(std::int64_t capacity_milli) : capacity_(static_cast<double>(capacity_milli)) {}

  // arrived_milli never falls.
  void add(const Standing& standing);
  // One for each percent from 0 to `until`. Percents at which nobody arrived have the last values
  // before them; before the first arrival everything is 0.
  std::vector<CurvePoint> points(std::int64_t until) const;

 private:
  struct Sums {
    CurvePoint sum;  // but for `arrived`
    std::int64_t arrivals = 0;
    CurvePoint last;
  };
  double capacity_;
  std::vector<Sums> by_percent_;
};

}  // namespace mgpu::trace
