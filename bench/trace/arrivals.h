// Which pods come, in which order: the protocol of FGD (Weng et al., USENIX ATC 2023, with its
// simulator, hkust-adsl/kubernetes-scheduler-simulator). Every pod of the list once, sorted by name
// and shuffled; then tuned to a total: further pods drawn from the list with replacement, or pods
// taken away at random. Nobody leaves, and who fits nowhere does not come again.
// Numbers come from the generator of the published runs (go_random.h), so that a seed of openb
// stands for the very arrivals and node names of the published run.
//
// The same on every machine: nothing here depends on the standard library's distributions.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "bench/trace/trace_files.h"

namespace mgpu::trace {

// One stream of numbers of a seed; `purpose` keeps streams of one seed apart.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t purpose);
  // Uniform in 0 .. bound - 1. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1).
  double fraction();

 private:
  std::mt19937_64 engine_;
};

// Indices into `pods`, in order of arrival, whose cards sum up to `target_milli` at most, but for
// the last: it may pass the target by what it asks beyond one card. Ends after
// limits::kArrivalsMax in any case. REQUIRES: pods is not empty.
std::vector<std::size_t> arrivals_of(const std::vector<TracePod>& pods, std::int64_t target_milli,
                                     std::uint64_t seed);

// The published simulator renames its nodes so that the first by name is another one in each run:
// the number in front of each node's name, by the node's index; a permutation.
std::vector<std::size_t> node_numbers(const Trace& trace, std::uint64_t seed);

}  // namespace mgpu::trace
