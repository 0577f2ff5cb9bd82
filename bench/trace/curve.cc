#include "bench/trace/curve.h"

#include <cmath>

namespace mgpu::trace {
namespace {

// Rounds half to even, the default rounding mode.
double to_two_decimals(double value) {
  return std::nearbyint(value * 100) / 100;
}

void add_to(CurvePoint& sum, const CurvePoint& point) {
  sum.allocation += point.allocation;
  sum.fragmentation_amount += point.fragmentation_amount;
  sum.fragmentation_rate += point.fragmentation_rate;
}

CurvePoint mean_of(const CurvePoint& sum, std::int64_t count) {
  const auto number = static_cast<double>(count);
  return {.allocation = sum.allocation / number,
          .fragmentation_amount = sum.fragmentation_amount / number,
          .fragmentation_rate = sum.fragmentation_rate / number};
}

}  // namespace

void Curve::add(const CurveSample& sample) {
  const auto allocated = static_cast<double>(sample.allocated_milli);
  const double free = capacity_ - allocated;
  const CurvePoint point{
      .allocation = to_two_decimals(100 * allocated / capacity_),
      .fragmentation_amount = 100 * sample.fragmentation_milli / capacity_,
      .fragmentation_rate = free > 0 ? 100 * sample.fragmentation_milli / free : 0};
  const auto percent = static_cast<std::size_t>(
      std::nearbyint(100 * static_cast<double>(sample.arrived_milli) / capacity_));
  if (by_percent_.size() <= percent) by_percent_.resize(percent + 1);
  add_to(by_percent_[percent].sum, point);
  by_percent_[percent].last = point;
  ++by_percent_[percent].arrivals;
}

std::vector<CurvePoint> Curve::points(std::int64_t until) const {
  std::vector<CurvePoint> points;
  CurvePoint last;
  for (std::int64_t percent = 0; percent <= until; ++percent) {
    const auto at = static_cast<std::size_t>(percent);
    const bool arrivals = at < by_percent_.size() && by_percent_[at].arrivals > 0;
    CurvePoint point = last;
    if (arrivals) {
      point = mean_of(by_percent_[at].sum, by_percent_[at].arrivals);
      last = by_percent_[at].last;
    }
    point.arrived = percent;
    points.push_back(point);
  }
  return points;
}

}  // namespace mgpu::trace
