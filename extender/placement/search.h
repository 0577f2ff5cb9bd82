// The packing search: cards for all containers of a pod at once. Pure.
//
// A greedy pass places the largest container first, and each on the best cards that are left. Where
// it fails, an exact search with backtracking follows, which skips
//   - cards that equal one tried before in size, room and the containers placed on them;
//   - equal containers in another order;
//   - branches whose remaining containers exceed the sum of the room.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/contract/gpu_request.h"
#include "common/contract/limits.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/fit.h"
#include "extender/placement/holds.h"
#include "extender/placement/links.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

enum class Outcome : std::uint8_t {
  kFound,
  kNone,   // there is no placement
  kBound,  // the budget ran out before an answer
};

class Search {
 public:
  // Only cards of `open` are chosen; without a policy the first cards are preferred. In a pod with
  // init containers, a container is placed first on cards where it adds nothing to what the pod
  // holds, then on cards whose containers of this pod run at another time. The arguments outlive
  // the search. Links (links.h) decide between cards that are equally good otherwise in the greedy
  // pass only; those that the pod requires hold in both. REQUIRES: a request as read_request
  // returns it.
  Search(const Node& node, CardSet open, Room room, const PlacementContext& context,
         const Policy* policy, SearchBudget& budget);

  // REQUIRES: not called before.
  Outcome run();

  // REQUIRES: run() returned kFound.
  Placement placement() const;

 private:
  using Position = std::uint8_t;  // of a card in its node

  // The placing of one container.
  struct Level {
    std::size_t container;
    LinkRule links;
    bool same_as_last;  // exchangeable with the container of the level before
    Share rest;         // the sum of this and the later requests, without init containers
    Share smallest;     // the smallest of their requests of one card, in each dimension
    std::size_t candidates = 0;
    std::array<Position, kCardsPerNodeMax> cards;    // those with room for it, best first
    std::array<std::uint8_t, kCardsPerNodeMax> tie;  // equal for cards that are equally good
  };
  struct Slot {
    Share room;
    Share taken;           // what policies count as taken
    std::size_t equal_to;  // the lowest position of an equal card
    ContainerSet on = 0;   // the containers placed on the card
    Share held;            // what the pod holds of it so far
    Share running;         // the same without init containers
  };
  // The order of candidates, ascending.
  struct Rank;

  void open_slots(Room room);
  void order_levels();
  void sum_up_levels();

  const ContainerRequest& container_of(const Level& level) const;
  Rank rank(const Level& level, Position card, const Share& held) const;
  bool spend(std::size_t steps);
  std::size_t opening_steps() const;
  static std::size_t hold_steps(const Slot& slot, std::size_t times);
  bool list_candidates(Level& level, Position lowest);
  bool rest_may_fit(const Level& level) const;
  bool tried_an_equal(const Level& level, std::size_t from, std::size_t at) const;
  void toggle(const Level& level, Position card);

  bool prefer_connected(Level& level);
  bool linked_with(CardSet chosen, Position card) const;
  bool place_greedily();
  bool search_from(std::size_t level);
  bool choose(std::size_t level, std::int32_t missing, std::size_t from, CardSet chosen);

  const Node& node_;
  const PlacementContext context_;
  std::span<const Card> cards_;
  CardSet open_;
  const GpuRequest& request_;
  const Policy* policy_;
  std::size_t rank_steps_;  // of one card by the policy
  SearchBudget& budget_;
  ContainerSet inits_ = 0;
  bool out_of_steps_ = false;
  std::vector<Level> levels_;
  std::vector<Slot> slots_;  // by position
};

}  // namespace mgpu::extender
