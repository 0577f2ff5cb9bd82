// The seeded random numbers of Go's math/rand. The published runs of FGD were shuffled with them,
// so a run here has the same pods and node names as the published run of that seed, and any
// remaining difference is due to the policy. The algorithm is that of Go 1 (go/src/math/rand,
// rng.go and rand.go), an additive lagged Fibonacci generator by D. P. Mitchell and J. A. Reeds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mgpu::trace {

// Not thread-safe. The comments give the equivalent calls in Go.
class GoRandom {
 public:
  explicit GoRandom(std::uint64_t seed);  // rand.Seed(seed)

  std::uint64_t next();  // rand.Uint64()
  // rand.Intn(bound): uniform in 0 .. bound - 1. REQUIRES: 0 < bound < 2^31.
  std::uint32_t below(std::uint32_t bound);
  // rand.Perm(size). REQUIRES: size < 2^31.
  std::vector<std::size_t> permutation(std::size_t size);
  // rand.Shuffle. REQUIRES: size < 2^31.
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t left = list.size(); left > 1; --left)
      std::swap(list[left - 1], list[scaled(static_cast<std::uint32_t>(left))]);
  }

 private:
  static constexpr std::size_t kLength = 607;

  // The bounded numbers that Shuffle draws, by a multiplication (Lemire) in place of a remainder.
  std::uint32_t scaled(std::uint32_t bound);

  std::array<std::uint64_t, kLength> state_;
  std::size_t tap_ = 0;
  std::size_t feed_;
};

}  // namespace mgpu::trace
