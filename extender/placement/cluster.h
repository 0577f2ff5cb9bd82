// Nodes and their cards as placement sees them. Values; pure.
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace mgpu::placement {

struct Card {
  CardIndex index;
  CardUuid uuid;
  std::string model;
  Share capacity;  // 100 % and the card's memory
  Share used;      // held by bound and assumed pods; may exceed capacity, then the card is full
  Share expected;  // what pods on their way are expected to take: never a reason to refuse
  bool healthy = true;
  bool uncertain = false;  // a pod whose cards are not known may be on it

  bool usable() const { return healthy && !uncertain; }
  Share room() const { return room_in(capacity, used); }
  // What is left when the pods on their way have come.
  Share room_after_expected() const { return room_in(capacity, used + expected); }
};

struct Node {
  NodeName name;
  std::vector<Card> cards;  // ascending by index

  // Null where there is none.
  const Card* find(CardIndex index) const;
  Card* find(CardIndex index);
};

}  // namespace mgpu::placement
