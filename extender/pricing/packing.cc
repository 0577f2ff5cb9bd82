// Reads from the choices in price tables which pods they pack, for all nodes together.
//
// The choices of a dynamic program lead back to its best packing: choice[r] is the size taken at r
// percent free, and the rest of the packing is that of r - size. To follow these choices for each
// card would take 100 steps for each of thousands of cards. Equal cards have equal choices, so
// cards are counted instead, by (kind, price of card memory, percent free, pair of prices). From
// 100 percent downwards, all cards of one count are moved together to what is left after their
// choice.
//
//   add    O(cards) for a node, and its value at all pairs
//   pods   O(kinds * prices of card memory * 100 * 60 + classes), for any number of nodes
//
// Free cards are handled first, in the same way: from the most free cards together downwards, a
// class of several cards takes n of them, or one card moves to the counts of single cards at 100
// percent.
#include "extender/pricing/packing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {
namespace {

constexpr std::size_t kFullPercent = 100;
// The fractions are quotients of single precision, with powers of differences up to some hundred.
constexpr double kFractionRounding = 0.02;

}  // namespace

Packing::Packing(const PriceTables& tables)
    : tables_(tables),
      cards_(tables.kinds_.size(),
             std::vector<Counts>(tables.nus_.size(), Counts(kFullPercent + 1))),
      free_(tables.kinds_.size(), Counts(kFreeCardsTogetherMax + 1)),
      pods_(tables.classes_.size()) {}

void Packing::add(const NodeRoom& room) {
  MGPU_CHECK(!unpacked_, "the nodes are added before the pods are counted");
  PairRow sums;
  tables_.values(room, sums);
  const auto pair = static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
  std::size_t free = 0;
  std::uint16_t kind = 0;
  for (const CardRoom& card : room.all()) {
    MGPU_CHECK(card.kind < cards_.size() && card.percent > 0 && card.percent <= kFullPercent,
               "a free part of a card of a known kind");
    if (card.percent < kFullPercent) {
      const std::size_t nu = best_price(card.kind, card.percent, card.memory, pair);
      ++cards_[card.kind][nu][card.percent][pair];
      continue;
    }
    if (card.kind != kind) add_free(kind, std::exchange(free, 0), pair);
    kind = card.kind;
    ++free;
  }
  add_free(kind, free, pair);
}

// The price of card memory at which the bound of a card is the least, as PriceTables::add_part.
std::size_t Packing::best_price(std::size_t kind, std::size_t percent, float memory,
                                std::size_t pair) const {
  const auto& by_price = tables_.tables_[kind].by_price;
  const auto value = [&](std::size_t nu) {
    return by_price[nu].value[percent][pair] + tables_.nus_[nu] * memory;
  };
  std::size_t best = 0;
  for (std::size_t nu = 1; nu < by_price.size(); ++nu)
    if (value(nu) < value(best)) best = nu;
  return best;
}

void Packing::add_free(std::uint16_t kind, std::size_t cards, std::size_t pair) {
  while (cards > 0) {
    const std::size_t together = std::min(cards, kFreeCardsTogetherMax);
    ++free_[kind][together][pair];
    cards -= together;
  }
}

// Descending: what is left of a group of free cards is a smaller group, which is handled later.
void Packing::unpack_free(std::size_t kind) {
  for (std::size_t free = kFreeCardsTogetherMax; free > 0; --free) {
    for (std::size_t pair = 0; pair < kPricePairs; ++pair) {
      const std::int32_t nodes = free_[kind][free][pair];
      MGPU_CHECK(nodes >= 0, "a group of free cards is unpacked once");
      if (nodes == 0) continue;
      const std::int16_t taken = tables_.tables_[kind].choice[free][pair];
      if (taken == kNothing) {
        cards_[kind][best_price(kind, kFullPercent, 1, pair)][kFullPercent][pair] += nodes;
        free_[kind][free - 1][pair] += nodes;
      } else {
        const auto at = static_cast<std::size_t>(taken);
        MGPU_CHECK(static_cast<std::size_t>(tables_.classes_[at].cards) <= free,
                   "a class takes no more cards than there are");
        pods_[at] += nodes;
        free_[kind][free - static_cast<std::size_t>(tables_.classes_[at].cards)][pair] += nodes;
      }
    }
  }
}

// Descending by percent free, for the same reason. Where nothing is taken at r, the best packing is
// that of r - 1.
void Packing::unpack_cards(std::size_t kind, std::size_t nu) {
  const auto& knapsack = tables_.tables_[kind].by_price[nu];
  Counts& counts = cards_[kind][nu];
  std::vector<PairRow> taken(tables_.sizes_.size());
  for (PairRow& row : taken) row.fill(0);
  for (std::size_t r = kFullPercent; r > 0; --r) {
    for (std::size_t pair = 0; pair < kPricePairs; ++pair) {
      const std::int32_t cards = counts[r][pair];
      MGPU_CHECK(cards >= 0, "a card is unpacked once");
      if (cards == 0) continue;
      const std::int16_t choice = knapsack.choice[r][pair];
      const auto size = static_cast<std::size_t>(std::max<std::int16_t>(choice, 0));
      const std::size_t step =
          choice == kNothing ? 1 : static_cast<std::size_t>(tables_.sizes_[size].percent);
      MGPU_CHECK(step <= r, "a size is taken of no more than is free");
      counts[r - step][pair] += cards;
      if (choice != kNothing) taken[size][pair] += static_cast<float>(cards);
    }
  }
  for (std::size_t size = 0; size < taken.size(); ++size) {
    for (std::size_t pair = 0; pair < kPricePairs; ++pair)
      if (taken[size][pair] > 0) share_out(kind, nu, size, pair, taken[size][pair]);
  }
}

// Divides pods of one size among its classes by the weights of the soft maximum: class c gets the
// fraction p_c e^(v_c/t) / sum of p e^(v/t), which is p_c / (sum of p) * e^((v_c - b)/t). These
// fractions sum up to 1. They are the derivatives of b by v_c, which makes the packing a
// subgradient (refinement.h).
void Packing::share_out(std::size_t kind, std::size_t nu, std::size_t size, std::size_t pair,
                        double pods) {
  const float best = tables_.tables_[kind].by_price[nu].size_value[size][pair];
  float all = 0;
  for (const std::size_t at : tables_.sizes_[size].classes)
    if (tables_.classes_[at].fits[kind] != 0) all += tables_.classes_[at].probability;
  MGPU_CHECK(all > 0, "a size that is taken has a class that fits");
  double shared_out = 0;
  for (const std::size_t at : tables_.sizes_[size].classes) {
    const PricedClass& one = tables_.classes_[at];
    if (one.fits[kind] == 0) continue;
    const float worth = tables_.worth_at(at, tables_.nus_[nu], one.card_memory[kind], pair);
    const float weight = one.probability / all * std::exp((worth - best) / kSoftness);
    pods_[at] += pods * static_cast<double>(weight);
    shared_out += static_cast<double>(weight);
  }
  MGPU_DEBUG_CHECK(std::abs(shared_out - 1) < kFractionRounding,
                   "the fractions of a size sum up to 1");
}

const std::vector<double>& Packing::pods() {
  MGPU_CHECK(!std::exchange(unpacked_, true), "the pods are counted once");
  for (std::size_t kind = 0; kind < cards_.size(); ++kind) {
    unpack_free(kind);
    for (std::size_t nu = 0; nu < cards_[kind].size(); ++nu) unpack_cards(kind, nu);
  }
  MGPU_CHECK(std::ranges::all_of(pods_, [](double pods) { return pods >= 0; }),
             "no fewer than no pods are packed");
  return pods_;
}

}  // namespace mgpu::extender
