// The free part of a node, for each card, and the kinds of cards in the cluster. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/contract/limits.h"
#include "extender/placement/card_model.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {

struct CardRoom {
  std::uint16_t kind = 0;  // position in Kinds
  std::uint8_t percent = 0;
  float memory = 0;  // the fraction of the card's memory that is free, 0..1
  bool operator==(const CardRoom&) const = default;
};

// Card::kind, computed where the card has none.
KindId kind_of(const Card& card);

// The kinds of cards with prices, the most frequent first, at most kCardKindsMax. Position 0 is for
// cards of any other kind, which no class that names models accepts.
class Kinds {
 public:
  Kinds() : kinds_(1), ids_(1), most_cards_(1) {}

  std::size_t size() const { return kinds_.size(); }
  const CardKind& operator[](std::size_t at) const { return kinds_[at]; }
  std::uint16_t find(KindId id) const;
  // The most cards of the kind that one node has.
  std::int32_t most_cards(std::size_t at) const { return most_cards_[at]; }

 private:
  friend class KindCount;
  std::vector<CardKind> kinds_;
  std::vector<KindId> ids_;
  std::vector<std::int32_t> most_cards_;
};

// Counts the cards of a cluster by their kinds.
class KindCount {
 public:
  void add(const Node& node);
  Kinds kinds() const;

 private:
  struct Counted {
    CardKind kind;
    KindId id = 0;
    std::size_t cards = 0;
    std::int32_t most_cards = 0;  // of one node
    std::int32_t on_node = 0;     // of the node that is being added
  };
  std::vector<Counted> counted_;
};

inline constexpr float kMilliPerCore = 1000;
inline constexpr float kMiBPerGiB = 1024;

struct NodeRoom {
  float cores = 0;
  float gib = 0;
  std::uint8_t count = 0;                        // of cards with something free
  std::array<CardRoom, kCardsPerNodeMax> cards;  // the first `count` are set

  std::span<const CardRoom> all() const { return std::span(cards).first(count); }
};

// What is free after a pod with these requests and holds is placed. Expected shares count as taken,
// cards that are not usable have nothing free, and a node whose allocatable is not known has enough
// CPU and memory for any pod.
NodeRoom room_after(const Node& node, const Kinds& kinds, const NodeResources& resources,
                    std::span<const CardHold> pod);

}  // namespace mgpu::extender
