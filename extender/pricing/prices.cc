// Builds the tables of prices.h, and reads a node's value from them.
//
// Exact packing of a node is a knapsack problem with a dimension for each card and two for CPU and
// memory, which is far too slow for every node of every decision. A Lagrangian bound removes the
// two dimensions: CPU and memory have fixed prices, and each card is a knapsack of its own with one
// dimension, its compute. The prices with the best bound are chosen from a fixed grid of 60 pairs.
// With a grid, all that depends on the workload is computed once for all nodes, and a decision
// consists of additions: one row of 60 numbers for each card, and a minimum at the end.
//
// With S sizes, C classes, n kinds of cards, N prices of card memory (1 or 5) and 60 pairs:
//   tables  O(n * N * (100 * S + C) * 60), once for each round of refinement.h
//   value   O(cards * N * 60) additions
//
// The value is an upper bound of the worth of any packing, except in four cases, which make it
// faster: the soft maximum may be below the largest worth of a size (price_size); a class that
// takes parts of several cards counts as taking them whole (fill_free_cards); more cards than one
// table covers are priced in groups (add_cards); and so are cards of different kinds on one node
// (values).
//
// The numbers of all pairs are in one row (PairRow), and the inner loops run over rows, so that the
// compiler can use vector instructions. Single precision is enough: values are at most some hundred
// GPUs, and relevant differences are hundredths of one.
#include "extender/pricing/prices.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "extender/placement/card_model.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {
namespace {

constexpr std::int32_t kWhole = 100;
// The value of a size that no class of a kind packs: never the best, and far from overflow.
constexpr float kWorthless = -1e6F;

constexpr PairRow row_of(auto price_of) {
  PairRow row{};
  for (std::size_t q = 0; q < kPricePairs; ++q) row[q] = price_of(q);
  return row;
}

constexpr PairRow kLambda =
    row_of([](std::size_t q) { return kCpuPrices[q / kMemoryPrices.size()]; });
constexpr PairRow kMu =
    row_of([](std::size_t q) { return kMemoryPrices[q % kMemoryPrices.size()]; });

float memory_part(const PodClass& what, const CardKind& kind) {
  if (what.whole || kind.memory.zero()) return what.cards > 0 ? 1.0F : 0.0F;
  return static_cast<float>(what.per_card.memory.value()) / static_cast<float>(kind.memory.value());
}

bool fits_kind(const PodClass& what, const CardKind& kind) {
  if (what.cards == 0 || !accepts_model(what.models, what.models_excluded, kind.model))
    return false;
  return what.whole || kind.memory.zero() || what.per_card.memory <= kind.memory;
}

PricedClass priced_class(const WeightedClass& weighted, const Kinds& kinds) {
  const PodClass& what = weighted.what;
  const std::int64_t percent = what.whole ? kWhole : what.per_card.core.value();
  PricedClass priced{.probability = static_cast<float>(weighted.probability),
                     .gpus = static_cast<float>(what.cards * percent) / kWhole,
                     .cores = static_cast<float>(what.resources.cpu.value()) / kMilliPerCore,
                     .gib = static_cast<float>(what.resources.memory.value()) / kMiBPerGiB,
                     .cards = what.cards,
                     .percent = static_cast<std::int32_t>(percent),
                     .card_memory = {},
                     .fits = {}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    priced.card_memory.push_back(memory_part(what, kinds[kind]));
    priced.fits.push_back(fits_kind(what, kinds[kind]) ? 1 : 0);
  }
  return priced;
}

// Whether it requests a larger fraction of some kind's memory than of its compute.
bool memory_before_compute(const PricedClass& priced) {
  const float percent = static_cast<float>(priced.percent) / kWhole;
  for (std::size_t kind = 1; kind < priced.fits.size(); ++kind)
    if (priced.fits[kind] != 0 && priced.card_memory[kind] > percent + 1e-4F) return true;
  return false;
}

void take_larger(PairRow& best, PriceTables::Choices& choice, const PairRow& base,
                 const PairRow& gain, std::int16_t what) {
  for (std::size_t q = 0; q < kPricePairs; ++q) {
    const float value = base[q] + gain[q];
    const bool better = value > best[q];
    best[q] = better ? value : best[q];
    choice[q] = better ? what : choice[q];
  }
}

}  // namespace

std::vector<PricedClass> priced_classes(const Workload& workload, const Kinds& kinds) {
  std::vector<PricedClass> classes;
  classes.reserve(workload.classes.size());
  for (const WeightedClass& one : workload.classes) classes.push_back(priced_class(one, kinds));
  return classes;
}

PriceTables::PriceTables(const Workload& workload, Kinds kinds, const Prices& prices)
    : kinds_(std::move(kinds)), classes_(priced_classes(workload, kinds_)) {
  MGPU_CHECK(prices.supply.empty() || prices.supply.size() == classes_.size(),
             "a price for each class, or none");
  for (std::size_t i = 0; i < classes_.size(); ++i)
    net_.push_back(classes_[i].gpus - (i < prices.supply.size() ? prices.supply[i] : 0));
  sort_classes();
  choose_card_memory_prices();
  tables_.resize(kinds_.size());
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    KindTables& tables = tables_[kind];
    tables.by_price.resize(nus_.size());
    tables.whole_card.fill(-kWorthless);
    for (std::size_t nu = 0; nu < nus_.size(); ++nu) {
      fill_knapsack(kind, nus_[nu], tables.by_price[nu]);
      const PairRow& whole = tables.by_price[nu].value[kWhole];
      for (std::size_t q = 0; q < kPricePairs; ++q)
        tables.whole_card[q] = std::min(tables.whole_card[q], whole[q] + nus_[nu]);
    }
    fill_free_cards(kind, tables);
  }
}

void PriceTables::sort_classes() {
  std::map<std::int32_t, std::vector<std::size_t>> by_size;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].cards == 1) by_size[classes_[i].percent].push_back(i);
    if (classes_[i].cards > 1) several_.push_back(i);
  }
  for (auto& [percent, classes] : by_size) sizes_.push_back({percent, std::move(classes)});
}

void PriceTables::choose_card_memory_prices() {
  nus_.push_back(0);
  const auto needs_prices = [](const PricedClass& one) {
    return one.cards == 1 && one.percent < kWhole && memory_before_compute(one);
  };
  if (std::ranges::any_of(classes_, needs_prices))
    nus_.assign(kCardMemoryPrices.begin(), kCardMemoryPrices.end());
}

// v_c for every pair of prices, minus the price of its fraction of the card's memory.
void PriceTables::worth(std::size_t at, float nu, float card_memory, PairRow& out) const {
  const PricedClass& one = classes_[at];
  const float net = net_[at] - nu * card_memory;
  for (std::size_t q = 0; q < kPricePairs; ++q)
    out[q] = net - kLambda[q] * one.cores - kMu[q] * one.gib;
}

// b(size): t * ln( sum of p_c e^(v_c/t) / sum of p_c ) over the classes of this size. The largest
// v_c is taken out of the sum first, so that no power overflows: ln sum e^x = max + ln sum e^(x -
// max). The result is at most the largest v_c, and less by at most t * ln(sum of p_c / p_c) of that
// class.
void PriceTables::price_size(std::size_t kind, float nu, const Size& size, PairRow& out) const {
  out.fill(kWorthless);
  float probability = 0;
  PairRow worth_here;
  for (const std::size_t at : size.classes) {
    if (classes_[at].fits[kind] == 0) continue;
    probability += classes_[at].probability;
    worth(at, nu, classes_[at].card_memory[kind], worth_here);
    for (std::size_t q = 0; q < kPricePairs; ++q) out[q] = std::max(out[q], worth_here[q]);
  }
  MGPU_CHECK(probability >= 0, "a probability is not negative");
  if (probability == 0) return;
  PairRow sum{};
  for (const std::size_t at : size.classes) {
    if (classes_[at].fits[kind] == 0) continue;
    const float part = classes_[at].probability / probability;
    worth(at, nu, classes_[at].card_memory[kind], worth_here);
    for (std::size_t q = 0; q < kPricePairs; ++q)
      sum[q] += part * std::exp((worth_here[q] - out[q]) / kSoftness);
  }
  for (std::size_t q = 0; q < kPricePairs; ++q) out[q] += kSoftness * std::log(sum[q]);
}

// K(r), r = 0 .. 100: the unbounded knapsack of one card, by the size taken last. A remainder stays
// free, so that K(r) is never less than K(r - 1).
void PriceTables::fill_knapsack(std::size_t kind, float nu, Knapsack& out) const {
  out.size_value.resize(sizes_.size());
  for (std::size_t size = 0; size < sizes_.size(); ++size)
    price_size(kind, nu, sizes_[size], out.size_value[size]);
  out.value.resize(kWhole + 1);
  out.choice.resize(kWhole + 1);
  out.value[0].fill(0);
  out.choice[0].fill(kNothing);
  for (std::int32_t r = 1; r <= kWhole; ++r) {
    const auto at = static_cast<std::size_t>(r);
    out.value[at] = out.value[at - 1];
    out.choice[at].fill(kNothing);
    for (std::size_t size = 0; size < sizes_.size() && sizes_[size].percent <= r; ++size) {
      const auto rest = static_cast<std::size_t>(r - sizes_[size].percent);
      take_larger(out.value[at], out.choice[at], out.value[rest], out.size_value[size],
                  static_cast<std::int16_t>(size));
    }
    MGPU_DEBUG_CHECK(std::ranges::equal(out.value[at], out.value[at - 1], std::greater_equal<>{}),
                     "more of a card is not worth less");
  }
}

// Z(f): free cards of one kind, by the use of the last of them: it is filled by itself, K(100), or
// it is one of the n cards of a class of several. A class that takes a part of each of several
// cards counts as taking them whole: otherwise what is left of one card would depend on the others,
// and they could not be priced one by one.
void PriceTables::fill_free_cards(std::size_t kind, KindTables& out) const {
  out.free_cards.resize(kFreeCardsTogetherMax + 1);
  out.choice.resize(kFreeCardsTogetherMax + 1);
  out.free_cards[0].fill(0);
  PairRow worth_here;
  for (std::size_t free = 1; free <= kFreeCardsTogetherMax; ++free) {
    PairRow& best = out.free_cards[free];
    out.choice[free].fill(kNothing);
    for (std::size_t q = 0; q < kPricePairs; ++q)
      best[q] = out.free_cards[free - 1][q] + out.whole_card[q];
    for (const std::size_t at : several_) {
      const auto cards = static_cast<std::size_t>(classes_[at].cards);
      if (cards > free || classes_[at].fits[kind] == 0) continue;
      worth(at, 0, 0, worth_here);
      take_larger(best, out.choice[free], out.free_cards[free - cards], worth_here,
                  static_cast<std::int16_t>(at));
    }
    MGPU_DEBUG_CHECK(std::ranges::equal(best, out.free_cards[free - 1], std::greater_equal<>{}),
                     "more free cards are not worth less");
  }
}

// More than kFreeCardsTogetherMax cards are priced in groups of that many.
void PriceTables::add_cards(const CardRoom& card, std::size_t free, PairRow& sums) const {
  while (free > 0) {
    const std::size_t together = std::min(free, kFreeCardsTogetherMax);
    const PairRow& row = tables_[card.kind].free_cards[together];
    for (std::size_t q = 0; q < kPricePairs; ++q) sums[q] += row[q];
    free -= together;
  }
}

// A card in part use, at the price of card memory with its best bound: the minimum of bounds is a
// bound, and a price chosen for each card is no worse than one for all of them.
void PriceTables::add_part(const CardRoom& card, PairRow& sums) const {
  const auto& by_price = tables_[card.kind].by_price;
  if (by_price.size() == 1) {
    const PairRow& row = by_price.front().value[card.percent];
    for (std::size_t q = 0; q < kPricePairs; ++q) sums[q] += row[q];
    return;
  }
  PairRow least;
  least.fill(-kWorthless);
  for (std::size_t nu = 0; nu < by_price.size(); ++nu) {
    const PairRow& row = by_price[nu].value[card.percent];
    const float memory = nus_[nu] * card.memory;
    for (std::size_t q = 0; q < kPricePairs; ++q) least[q] = std::min(least[q], row[q] + memory);
  }
  for (std::size_t q = 0; q < kPricePairs; ++q) sums[q] += least[q];
}

// Neighbouring free cards of one kind are priced together, since pods of several cards may take
// them. Cards of another kind between them separate them: no pod is packed across.
void PriceTables::values(const NodeRoom& room, PairRow& sums) const {
  MGPU_CHECK(room.cores >= 0 && room.gib >= 0 && room.count <= room.cards.size(),
             "what is free on a node is not negative");
  for (std::size_t q = 0; q < kPricePairs; ++q)
    sums[q] = kLambda[q] * room.cores + kMu[q] * room.gib;
  std::size_t free = 0;
  const CardRoom* last = nullptr;
  for (const CardRoom& card : room.all()) {
    if (card.percent < kWhole) {
      add_part(card, sums);
      continue;
    }
    if (last != nullptr && last->kind != card.kind) add_cards(*last, std::exchange(free, 0), sums);
    last = &card;
    ++free;
  }
  if (last != nullptr) add_cards(*last, free, sums);
}

// A step is as long as the additions of about one row.
std::uint32_t PriceTables::value_steps(std::size_t cards) const {
  constexpr std::size_t kRowsOfNode = 4;
  return static_cast<std::uint32_t>(kRowsOfNode + cards * (1 + nus_.size()));
}

float PriceTables::value(const NodeRoom& room) const {
  MGPU_CHECK(!empty(), "tables without classes or kinds have no values");
  PairRow sums;
  values(room, sums);
  return *std::ranges::min_element(sums);
}

}  // namespace mgpu::extender
