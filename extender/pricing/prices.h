// Prices: a class of pods has a supply price where the free cards would pack more of its pods than
// are expected. With these prices a node has a value, which the policy "equilibrium" keeps high:
//
//   value(node) = the most GPUs that expected pods can pack into what is free on the node, where a
//                 pod of class c has the worth g_c - s_c, its GPUs minus its supply price.
//
// It is the Lagrangian bound of the node's packing problem. Every pair of a price of CPU (lambda,
// GPUs per core) and of memory (mu, GPUs per GiB) gives an upper bound, and the least is taken:
//
//   v_c         = g_c - s_c - lambda*cpu_c - mu*memory_c
//   b(size)     = t * ln( sum_c p_c e^(v_c/t) / sum_c p_c ), over the classes that request a part
//                 of this size of one card (a soft maximum, which similar classes share)
//   K(r)        = max( K(r-1), max over sizes: K(r - size) + b(size) ), r = 0..100 percent free
//   Z(f)        = max( Z(f-1) + K(100), max over classes of n cards: Z(f-n) + v_c )
//   value(node) = min over (lambda, mu) of
//                 lambda*cores + mu*GiB + Z(free cards) + sum over cards in part use of K(r)
//
// Card memory has a third price, for each card separately: nu (GPUs per whole card memory) times
// the fraction of the card's memory that the class requests is subtracted from v_c, nu times the
// free fraction is added to the card's K, and the least over nu is taken. Where no class requests a
// larger fraction of a card's memory than of its compute, memory is never short before compute, and
// nu is 0.
//
// Lagrangian bounds of packing: Martello and Toth, "Knapsack Problems", 1990, section 3.2. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extender/pricing/node_room.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// GPUs per core, GPUs per GiB, GPUs per whole card memory.
inline constexpr std::array<float, 12> kCpuPrices{0,      0.002F, 0.004F, 0.007F, 0.011F, 0.016F,
                                                  0.023F, 0.032F, 0.045F, 0.065F, 0.1F,   0.2F};
inline constexpr std::array<float, 5> kMemoryPrices{0, 0.001F, 0.003F, 0.007F, 0.015F};
inline constexpr std::array<float, 5> kCardMemoryPrices{0, 0.35F, 0.7F, 1.1F, 2.5F};
inline constexpr std::size_t kPricePairs = kCpuPrices.size() * kMemoryPrices.size();
inline constexpr float kSoftness = 0.02F;  // t, in GPUs

// One number for each pair of prices; pair q is kCpuPrices[q / 5], kMemoryPrices[q % 5].
using PairRow = std::array<float, kPricePairs>;

// Supply prices s_c by the position of the class in its workload, 0 .. g_c GPUs.
struct Prices {
  std::vector<float> supply;
};

// A class as the tables use it.
struct PricedClass {
  float probability = 0;
  float gpus = 0;  // g_c: cards times percent
  float cores = 0;
  float gib = 0;
  std::int32_t cards = 0;
  std::int32_t percent = 0;        // of each card; 100 where whole
  std::vector<float> card_memory;  // by kind: the fraction of a card's memory that it requests
  std::vector<std::uint8_t> fits;  // by kind: whether it accepts the model and is not too large
};
std::vector<PricedClass> priced_classes(const Workload& workload, const Kinds& kinds);

// In a table of choices: nothing is taken.
inline constexpr std::int16_t kNothing = -1;

// K, b and Z of every kind. Immutable; any thread.
class PriceTables {
 public:
  using Choices = std::array<std::int16_t, kPricePairs>;

  PriceTables() = default;  // empty
  // `prices` are those of the workload's classes, in its order.
  PriceTables(const Workload& workload, Kinds kinds, const Prices& prices);

  bool empty() const { return kinds_.size() <= 1 || classes_.empty(); }
  const Kinds& kinds() const { return kinds_; }
  const std::vector<PricedClass>& classes() const { return classes_; }

  // In GPUs. REQUIRES: !empty().
  float value(const NodeRoom& room) const;
  // The steps (placement/limits.h) of value() for a node with this many cards.
  std::uint32_t value_steps(std::size_t cards) const;
  // The bound at every pair of prices; value is the least of them.
  void values(const NodeRoom& room, PairRow& sums) const;

 private:
  friend class Packing;
  // The knapsack of one kind and one price of card memory.
  struct Knapsack {
    std::vector<PairRow> size_value;  // b, by size
    std::vector<PairRow> value;       // K, 0..100
    std::vector<Choices> choice;      // the size taken at r, or kNothing
  };
  struct KindTables {
    std::vector<Knapsack> by_price;   // as nus_
    PairRow whole_card;               // the least over nu of K(100) + nu
    std::vector<PairRow> free_cards;  // Z, 0 .. kFreeCardsTogetherMax
    std::vector<Choices> choice;      // the class taken at f; kNothing for a card by itself
  };
  struct Size {
    std::int32_t percent;
    std::vector<std::size_t> classes;
  };

  void sort_classes();
  void choose_card_memory_prices();
  void price_size(std::size_t kind, float nu, const Size& size, PairRow& out) const;
  void fill_knapsack(std::size_t kind, float nu, Knapsack& out) const;
  void fill_free_cards(std::size_t kind, KindTables& out) const;
  float worth_at(std::size_t at, float nu, float card_memory, std::size_t pair) const {
    const PricedClass& one = classes_[at];
    return net_[at] - nu * card_memory - kCpuPrices[pair / kMemoryPrices.size()] * one.cores -
           kMemoryPrices[pair % kMemoryPrices.size()] * one.gib;
  }
  void worth(std::size_t at, float nu, float card_memory, PairRow& out) const;
  void add_cards(const CardRoom& card, std::size_t free, PairRow& sums) const;
  void add_part(const CardRoom& card, PairRow& sums) const;

  Kinds kinds_;
  std::vector<PricedClass> classes_;
  std::vector<float> net_;            // g_c - s_c
  std::vector<Size> sizes_;           // of a part or the whole of one card, ascending
  std::vector<std::size_t> several_;  // classes of more than one card
  std::vector<float> nus_;
  std::vector<KindTables> tables_;  // by kind
};

}  // namespace mgpu::extender
