// Nodes and their cards, as placement decides on them. Values; pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "extender/placement/card_model.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct Card {
  CardIndex index;
  CardUuid uuid;
  std::string model;
  Share capacity;  // 100 %, or more if compute is oversubscribed, and the card's memory
  Share used;      // held by bound and assumed pods; a card with more used than capacity is full
  Share expected;  // expected placements between filter and bind; they never make a node infeasible
  bool healthy = true;
  bool reserved = false;               // by the profile of the node, and therefore not healthy
  bool uncertain = false;              // a pod whose cards are not known may be on it
  bool instance = false;               // a MIG device: only pods that name it get it
  bool cordoned = false;               // an administrator keeps new pods from it
  std::optional<std::int32_t> numa{};  // its NUMA node; no decision needs it
  KindId kind = 0;                     // of its model and memory (card_model.h); 0 if not computed

  bool offered() const { return healthy && !cordoned; }
  bool usable() const { return offered() && !uncertain; }
  Share room() const { return room_in(capacity, used); }
  Share room_after_expected() const { return room_in(capacity, used + expected); }
};

struct Policy;

struct Node {
  NodeName name;
  std::vector<Card> cards;        // ascending by index
  NodeResources allocatable;      // zero if it is not known
  NodeResources resources_used;   // requests of its pods, with and without cards
  std::int64_t pods_allowed = 0;  // zero if it is not known
  std::int64_t pods_counted = 0;  // with and without cards; each attempt to bind a pod counts
  NodeProfile profile;            // as its device plugin published it
  // Those of profile.policy, for pods that choose none (policy.h, policy_on); null: the profile has
  // none.
  const Policy* node_policy = nullptr;
  const Policy* card_policy = nullptr;
  // Between the cards, by their positions; null if they are not known.
  std::shared_ptr<const CardLinks> links;

  NodeResources resources_left() const { return room_in(allocatable, resources_used); }

  // Null if there is none.
  const Card* find(CardIndex index) const;
  Card* find(CardIndex index);
};

}  // namespace mgpu::extender
