// Mean and standard deviation. Pure.
#pragma once

#include <cmath>
#include <vector>

namespace mgpu::trace {

struct Spread {
  double mean = 0;
  double deviation = 0;  // standard deviation of a sample; 0 for one number
};

// REQUIRES: numbers is not empty.
inline Spread spread_of(const std::vector<double>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  double sum = 0;
  for (const double number : numbers) sum += number;
  const double mean = sum / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {mean, count > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

}  // namespace mgpu::trace
