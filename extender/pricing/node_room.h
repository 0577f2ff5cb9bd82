// A node as prices see it: what of it is free, card by card, and nothing else. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/contract/limits.h"
#include "extender/placement/card_kind.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {

struct CardRoom {
  std::uint16_t kind = 0;  // position in Kinds
  std::uint8_t percent = 0;
  float memory = 0;  // the part of the card's memory that is free, 0..1
  bool operator==(const CardRoom&) const = default;
};

// The kinds of card that prices are made for. Position 0 is for cards of no known kind: no class
// that names models wants them.
class Kinds {
 public:
  Kinds() : Kinds(std::vector<CardKind>()) {}
  // Cards of more than kCardKindsMax kinds count as of no known kind.
  explicit Kinds(std::vector<CardKind> kinds);

  std::size_t size() const { return kinds_.size(); }
  const CardKind& operator[](std::size_t at) const { return kinds_[at]; }
  std::uint16_t find(KindId id) const;

 private:
  std::vector<CardKind> kinds_;
  std::vector<KindId> ids_;  // of kinds_
};

// Every kind of card in the cluster once, the commonest first.
// Of a card that has none given, by its model and size.
KindId kind_of(const Card& card);

class KindCount {
 public:
  void add(const Node& node);
  Kinds kinds() const;

 private:
  struct Counted {
    CardKind kind;
    KindId id;
    std::size_t cards;
  };
  std::vector<Counted> counted_;
};

struct NodeRoom {
  float cores = 0;
  float gib = 0;
  std::uint8_t count = 0;                        // of cards that have something free
  std::array<CardRoom, kCardsPerNodeMax> cards;  // `count` of them are set

  std::span<const CardRoom> all() const { return std::span(cards).first(count); }
};

// What is free when a pod with these host amounts and holds has come; expected shares count as
// taken, cards that are not usable have nothing free. A node whose host amounts are not known has
// plenty of them.
NodeRoom room_after(const Node& node, const Kinds& kinds, const NodeResources& host,
                    std::span<const CardHold> pod);

}  // namespace mgpu::extender
