#include "extender/placement/measures.h"

#include <algorithm>
#include <bit>

#include "extender/placement/fit.h"

namespace mgpu::extender {
namespace {

constexpr double kLargestMilliCpu = 128'000;
constexpr double kLargestCore = 800;
// kScoreMax has 20 bits, so that the product with a number of at most 40 bits fits in 64.
constexpr int kExactBits = 40;

Score ratio(std::int64_t part, std::int64_t whole) {
  if (part >= whole) return kScoreMax;
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(whole)));
  const int shift = std::max(bits - kExactBits, 0);
  return (part >> shift) * kScoreMax / (whole >> shift);
}

}  // namespace

Score fill(const Share& capacity, const Share& taken) {
  const Score core = ratio(taken.core.value(), capacity.core.value());
  const Score memory = ratio(taken.memory.value(), capacity.memory.value());
  return (core + memory) / 2;
}

Score fill_after(const Node& node, const std::vector<CardHold>& pod) {
  Score sum = 0;
  Score cards = 0;
  auto hold = pod.begin();  // Both lists are ascending by card.
  for (const Card& card : node.cards) {
    Share taken = card.used + card.expected;
    while (hold != pod.end() && hold->card < card.index) ++hold;
    if (hold != pod.end() && hold->card == card.index) taken += hold->share;
    if (!card.offered()) continue;
    sum += fill(card.capacity, taken);
    ++cards;
  }
  return cards == 0 ? 0 : sum / cards;
}

std::int64_t free_core(const Card& card) {
  return card.usable() ? card.room_after_expected().core.value() : 0;
}

std::int64_t free_core(const Node& node) {
  std::int64_t sum = 0;
  for (const Card& card : cards_of(node)) sum += free_core(card);
  return sum;
}

std::int64_t core_of(const std::vector<CardHold>& pod) {
  std::int64_t sum = 0;
  for (const CardHold& hold : pod) sum += hold.share.core.value();
  return sum;
}

double part_of_largest(MilliCpu cpu) {
  return static_cast<double>(cpu.value()) / kLargestMilliCpu;
}

double part_of_largest(std::int64_t core) {
  return static_cast<double>(core) / kLargestCore;
}

Score hundredths(double part) {
  constexpr auto kMost = static_cast<double>(kScoreMax);
  return static_cast<Score>(std::clamp(part * 100, -kMost, kMost));
}

Score tightest_card(const PlacementContext&, const Node&, const Card& card, const Share& taken,
                    const Share&) {
  return -card.capacity.core.minus_saturating(taken.core).value();
}

}  // namespace mgpu::extender
