// Allocation and fragmentation of a run against the arrived workload. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace mgpu::trace {

struct CurvePoint {
  std::int64_t arrived = 0;  // percent of the cluster's cards that arrived pods request
  // Allocated percentage of all cards' compute. As in the published results, this is the mean over
  // the arrivals that round (half to even) to `arrived`, each first rounded to two decimals.
  double allocation = 0;
  double fragmentation_amount = 0;  // expected fragmentation, percent of all cards' compute
  double fragmentation_rate = 0;    // expected fragmentation, percent of the free compute
};

// The totals after one arrival, whether the pod was placed or not, in thousandths of a card.
struct CurveSample {
  std::int64_t arrived_milli = 0;
  std::int64_t allocated_milli = 0;
  double fragmentation_milli = 0;
};

class Curve {
 public:
  // REQUIRES: capacity_milli > 0.
  explicit Curve(std::int64_t capacity_milli) : capacity_(static_cast<double>(capacity_milli)) {}

  // REQUIRES: arrived_milli does not decrease.
  void add(const CurveSample& sample);
  // One point for each percent from 0 to `until`. A percent without arrivals repeats the last
  // values before it; before the first arrival all values are 0.
  std::vector<CurvePoint> points(std::int64_t until) const;

 private:
  struct Sums {
    CurvePoint sum;  // `arrived` is not used
    std::int64_t arrivals = 0;
    CurvePoint last;
  };
  double capacity_;
  std::vector<Sums> by_percent_;
};

}  // namespace mgpu::trace
