// The order in which the pods of a trace arrive, by the protocol of FGD (Weng et al., USENIX ATC
// 2023) and of its simulator, hkust-adsl/kubernetes-scheduler-simulator. The pods of the list are
// sorted by name and shuffled, and each arrives once. Then more pods are drawn from the list with
// replacement, or pods are removed at random, until the requested cards add up to a target. No pod
// terminates, and a pod that fits on no node is not tried again.
//
// The random numbers are those of the published runs (go_random.h): one seed gives the same
// arrivals and the same node names as the published run with that seed. Results do not depend on
// the machine, because no distribution of the standard library is used.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "bench/trace/trace_files.h"

namespace mgpu::trace {

// A stream of random numbers. Streams of one seed differ by `purpose`.
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

// Indices into `pods`, in order of arrival. Their cards add up to at most `target_milli`, except
// that the last pod may exceed it by the cards it requests beyond its first. At most
// limits::kArrivalsMax. REQUIRES: pods is not empty.
std::vector<std::size_t> arrivals_of(const std::vector<TracePod>& pods, std::int64_t target_milli,
                                     std::uint64_t seed);

// The published simulator puts a number in front of each node's name, so that the first node by
// name differs between runs. Returns these numbers, by the node's index; they are a permutation.
std::vector<std::size_t> node_numbers(const Trace& trace, std::uint64_t seed);

}  // namespace mgpu::trace
