#include "bench/trace/go_random.h"

#include <vector>

namespace mgpu::trace {
namespace {

constexpr std::size_t kLength = 607;
constexpr std::size_t kTap = 273;

using State = std::array<std::uint64_t, kLength>;

// x[n+1] = 48271 * x[n] mod (2^31 - 1).
std::uint64_t next_seed(std::uint64_t x) {
  return x * 48271 % 0x7fff'ffff;
}

State state_of_seed(std::uint64_t seed, int shift) {
  std::uint64_t x = seed % 0x7fff'ffff;
  if (x == 0) x = 89'482'311;
  for (int i = 0; i < 20; ++i) x = next_seed(x);
  State state;
  for (std::uint64_t& word : state) {
    const std::uint64_t high = next_seed(x);
    const std::uint64_t middle = next_seed(high);
    x = next_seed(middle);
    word = high << (2 * shift) ^ middle << shift ^ x;
  }
  return state;
}

// The sequence is y[n] = y[n-607] + y[n-273]. Hence y[n] = sum of c[j] * y[j] with the coefficients
// c of x^n modulo x^607 - x^334 - 1, all modulo 2^64.
using Polynomial = std::vector<std::uint64_t>;

void reduce(Polynomial& p) {
  for (std::size_t power = p.size(); power-- > kLength;) {
    p[power - kLength] += p[power];
    p[power - kTap] += p[power];
  }
  p.resize(kLength);
}

Polynomial squared(const Polynomial& p) {
  Polynomial square(2 * kLength - 1);
  for (std::size_t i = 0; i < kLength; ++i)
    for (std::size_t j = 0; j < kLength; ++j) square[i + j] += p[i] * p[j];
  reduce(square);
  return square;
}

Polynomial power_of_x(std::uint64_t power) {
  Polynomial result(kLength);
  result[0] = 1;
  for (int bit = 63; bit >= 0; --bit) {
    result = squared(result);
    if ((power >> bit & 1) == 0) continue;
    result.insert(result.begin(), 0);
    reduce(result);
  }
  return result;
}

// Index of the number that is produced `steps` steps later. The register is filled downwards.
std::size_t index_of(std::uint64_t steps) {
  return (kLength - kTap + kLength - 1 - steps % kLength) % kLength;
}

// Go adds these constants to the state of every seed: the register after 7.8e12 steps from seed 1
// (gen_cooked.go). Go has them as a table; computing them takes some milliseconds.
State cooked_state() {
  constexpr std::uint64_t kSteps = 7'800'000'000'000;
  const State first = state_of_seed(1, 10);
  std::vector<std::uint64_t> y;
  for (std::size_t n = 0; n < kLength; ++n) y.push_back(first[index_of(n)]);
  for (std::size_t n = kLength; n < 2 * kLength; ++n) y.push_back(y[n - kLength] + y[n - kTap]);
  const Polynomial c = power_of_x(kSteps);
  State state;
  for (std::size_t t = 0; t < kLength; ++t) {
    std::uint64_t number = 0;
    for (std::size_t j = 0; j < kLength; ++j) number += c[j] * y[j + t];
    state[index_of(kSteps + t)] = number;
  }
  return state;
}

std::size_t previous(std::size_t index) {
  return index == 0 ? kLength - 1 : index - 1;
}

}  // namespace

GoRandom::GoRandom(std::uint64_t seed) : state_(state_of_seed(seed, 20)), feed_(kLength - kTap) {
  static const State kCooked = cooked_state();
  for (std::size_t i = 0; i < kLength; ++i) state_[i] ^= kCooked[i];
}

std::uint64_t GoRandom::next() {
  tap_ = previous(tap_);
  feed_ = previous(feed_);
  return state_[feed_] += state_[tap_];
}

std::uint32_t GoRandom::below(std::uint32_t bound) {
  constexpr std::uint32_t kInt31Max = 0x7fff'ffff;
  const std::uint32_t last = kInt31Max - (kInt31Max - bound + 1) % bound;
  for (;;) {
    const auto number = static_cast<std::uint32_t>((next() & ~std::uint64_t{0} >> 1) >> 32);
    if (number <= last) return number % bound;
  }
}

std::uint32_t GoRandom::scaled(std::uint32_t bound) {
  const std::uint32_t least = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t number = (next() & ~std::uint64_t{0} >> 1) >> 31;
    const std::uint64_t product = number * bound;
    if (static_cast<std::uint32_t>(product) >= least)
      return static_cast<std::uint32_t>(product >> 32);
  }
}

std::vector<std::size_t> GoRandom::permutation(std::size_t size) {
  std::vector<std::size_t> places(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t j = below(static_cast<std::uint32_t>(i + 1));
    places[i] = places[j];
    places[j] = i;
  }
  return places;
}

}  // namespace mgpu::trace
