#include "extender/placement/fill.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace mgpu::extender {

namespace {

// kScoreMax has 20 bits: numbers of at most 40 can be multiplied by it.
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
  auto hold = pod.begin();  // both are ascending by card
  for (const Card& card : node.cards) {
    Share taken = card.used + card.expected;
    while (hold != pod.end() && hold->card < card.index) ++hold;
    if (hold != pod.end() && hold->card == card.index) taken += hold->share;
    if (!card.healthy) continue;
    sum += fill(card.capacity, taken);
    ++cards;
  }
  return cards == 0 ? 0 : sum / cards;
}

}  // namespace mgpu::extender
