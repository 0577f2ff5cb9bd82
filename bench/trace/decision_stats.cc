#include "bench/trace/decision_stats.h"

namespace mgpu::trace {
namespace {

// -1 for no card, 0 for a share of one card, else the number of cards.
std::int64_t size_of(const TracePod& pod) {
  if (pod.cards == 0) return -1;
  return pod.cards == 1 && pod.milli < 1000 ? 0 : pod.cards;
}

std::string size_name(std::int64_t size) {
  if (size < 0) return "none";
  return size == 0 ? "share" : std::to_string(size);
}

}  // namespace

void DecisionStats::add(const TracePod& pod, const Outcome& outcome) {
  ++decisions_;
  took_ += outcome.took;
  Failures& failures = by_size_[size_of(pod)];
  if (outcome.node) return;
  ++failures.pods;
  failures.gpus += static_cast<double>(pod.total_milli()) / 1000;
}

double DecisionStats::us_per_decision() const {
  if (decisions_ == 0) return 0;
  return std::chrono::duration<double, std::micro>(took_).count() / static_cast<double>(decisions_);
}

std::vector<Failures> DecisionStats::failures() const {
  std::vector<Failures> all;
  for (const auto& [size, failures] : by_size_)
    all.push_back({size_name(size), failures.pods, failures.gpus});
  return all;
}

}  // namespace mgpu::trace
