#include "extender/placement/measures.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace mgpu::extender {
namespace {

// kScoreMax has 20 bits, so that the product with a number of at most 40 bits fits in 64.
constexpr int kExactBits = 40;

Score ratio(std::int64_t part, std::int64_t whole) {
  MGPU_CHECK(part >= 0, "nothing of a card is taken back");
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
  MGPU_DEBUG_CHECK(std::ranges::is_sorted(pod, {}, &CardHold::card), "holds ascend by card");
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
  MGPU_CHECK(sum >= 0 && sum <= cards * kScoreMax, "each card is between empty and full");
  return cards == 0 ? 0 : sum / cards;
}

std::int64_t free_core(const Card& card) {
  return card.usable() ? card.room_after_expected().core.value() : 0;
}

}  // namespace mgpu::extender
