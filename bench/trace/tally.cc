#include "bench/trace/tally.h"

namespace mgpu::trace {
namespace {

// Ascending: without cards, shares of one card, more by number.
std::int64_t size_of(const TracePod& pod) {
  if (pod.cards == 0) return -1;
  return pod.cards == 1 && pod.milli < 1000 ? 0 : pod.cards;
}

std::string size_name(std::int64_t size) {
  if (size < 0) return "none";
  return size == 0 ? "share" : std::to_string(size);
}

}  // namespace

void Tally::add(const TracePod& pod, const Outcome& outcome) {
  ++decisions_;
  took_ += outcome.took;
  Failures& failures = by_size_[size_of(pod)];
  if (outcome.node) return;
  ++failures.pods;
  failures.gpus += static_cast<double>(pod.total_milli()) / 1000;
}

double Tally::us_per_decision() const {
  if (decisions_ == 0) return 0;
  return std::chrono::duration<double, std::micro>(took_).count() / static_cast<double>(decisions_);
}

std::vector<Failures> Tally::failures() const {
  std::vector<Failures> all;
  for (const auto& [size, failures] : by_size_)
    all.push_back({size_name(size), failures.pods, failures.gpus});
  return all;
}

}  // namespace mgpu::trace
