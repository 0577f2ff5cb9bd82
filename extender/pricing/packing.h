// The number of pods of each class in the packing of nodes that price tables imply. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "extender/pricing/prices.h"

namespace mgpu::extender {

class Packing {
 public:
  // `tables` outlives the packing. REQUIRES: not empty.
  explicit Packing(const PriceTables& tables);

  // Adds a node, at the pair of prices at which its bound is the least.
  void add(const NodeRoom& room);
  // By class, for all nodes added. REQUIRES: not called before.
  const std::vector<double>& pods();

 private:
  using Counts = std::vector<std::array<std::int32_t, kPricePairs>>;  // by r, or by free cards

  void add_free(std::uint16_t kind, std::size_t cards, std::size_t pair);
  void unpack_free(std::size_t kind);
  void unpack_cards(std::size_t kind, std::size_t nu);
  void share_out(std::size_t kind, std::size_t nu, std::size_t size, std::size_t pair, double pods);
  std::size_t best_price(std::size_t kind, std::size_t percent, float memory,
                         std::size_t pair) const;

  const PriceTables& tables_;
  std::vector<std::vector<Counts>> cards_;  // by kind, price of card memory, r
  std::vector<Counts> free_;                // by kind, free cards
  std::vector<double> pods_;
  bool unpacked_ = false;
};

}  // namespace mgpu::extender
