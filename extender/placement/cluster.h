// Nodes and their cards as placement sees them. Values; pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "extender/placement/card_kind.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct Card {
  CardIndex index;
  CardUuid uuid;
  std::string model;
  Share capacity;  // 100 % and the card's memory
  Share used;      // held by bound and assumed pods; may exceed capacity, then the card is full
  Share expected;  // what pods on their way are expected to take: never a reason to refuse
  bool healthy = true;
  bool uncertain = false;  // a pod whose cards are not known may be on it
  KindId kind = 0;         // of its model and memory (card_kind.h); 0: not computed

  bool usable() const { return healthy && !uncertain; }
  Share room() const { return room_in(capacity, used); }
  // What is left when the pods on their way have come.
  Share room_after_expected() const { return room_in(capacity, used + expected); }
};

// How many of a node's pods hold this many cards each; 0 stands for a part of one card.
struct PodsByCards {
  std::int32_t cards = 0;
  std::int32_t pods = 0;
  bool operator==(const PodsByCards&) const = default;
};

struct Node {
  NodeName name;
  std::vector<Card> cards;       // ascending by index
  NodeResources allocatable;     // beside the cards; zero where it is not known
  NodeResources resources_used;  // asked by its pods, with cards or without; may exceed allocatable
  std::vector<PodsByCards> pods;  // with cards, ascending by cards; none with zero pods

  NodeResources resources_left() const { return room_in(allocatable, resources_used); }

  // Null where there is none.
  const Card* find(CardIndex index) const;
  Card* find(CardIndex index);
};

}  // namespace mgpu::extender
