// The packing that price tables imply for nodes: how many pods of each class. Pure.
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

  // At the pair of prices at which the node's bound is the least.
  void add(const NodeRoom& room);
  // By class, of all nodes added. Uses them up: call it once.
  const std::vector<double>& pods();

 private:
  using Counts = std::vector<std::array<std::int32_t, kPricePairs>>;  // by r, or by free cards

  void add_part(const CardRoom& card, std::size_t pair);
  void add_free(std::uint16_t kind, std::size_t cards, std::size_t pair);
  void unpack_free(std::size_t kind);
  void unpack_cards(std::size_t kind, std::size_t nu);
  void share_out(std::size_t kind, std::size_t nu, std::size_t size, std::size_t pair, double pods);
  std::size_t best_price_of_whole(std::size_t kind, std::size_t pair) const;

  const PriceTables& tables_;
  std::vector<std::vector<Counts>> cards_;  // by kind, price of card memory, r
  std::vector<Counts> free_;                // by kind, free cards
  std::vector<double> pods_;
};

}  // namespace mgpu::extender
