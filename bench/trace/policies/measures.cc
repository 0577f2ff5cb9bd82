#include "bench/trace/policies/measures.h"

#include <algorithm>

#include "extender/placement/fit.h"

namespace mgpu::trace {
namespace {

constexpr double kLargestMilliCpu = 128'000;
constexpr double kLargestCore = 800;

}  // namespace

std::int64_t free_core(const Node& node) {
  std::int64_t sum = 0;
  for (const Card& card : extender::cards_of(node)) sum += free_core(card);
  return sum;
}

std::int64_t core_of(const std::vector<CardHold>& pod) {
  std::int64_t sum = 0;
  for (const CardHold& hold : pod) sum += hold.share.core.value();
  return sum;
}

double part_of_largest(extender::MilliCpu cpu) {
  return static_cast<double>(cpu.value()) / kLargestMilliCpu;
}

double part_of_largest(std::int64_t core) {
  return static_cast<double>(core) / kLargestCore;
}

Score hundredths(double part) {
  constexpr auto kMost = static_cast<double>(extender::kScoreMax);
  return static_cast<Score>(std::clamp(part * 100, -kMost, kMost));
}

Score tightest_card(const PlacementContext&, const Node&, const Card& card, const Share& taken,
                    const Share&) {
  return -card.capacity.core.minus_saturating(taken.core).value();
}

}  // namespace mgpu::trace
