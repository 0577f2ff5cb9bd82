// The packing search: cards for all containers of a pod at once. Pure.
//
// First a dive: the hardest container first, each on the best cards that are left. Where the dive
// ends without an answer, an exact search with backtracking, which leaves out
//   - cards that are as good as one tried before: equal in size, room and the containers so far;
//   - equal containers in another order;
//   - branches whose remaining containers exceed the room in sum.
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
  // Only cards of `open` are chosen; without a policy the first cards are the best ones. Where init
  // containers are asked, containers go first to cards on which they add nothing to what the pod
  // holds, then to cards on which they run at another time than what the pod has there. The
  // arguments outlive the search. REQUIRES: a request as read_request makes it.
  Search(const Node& node, CardSet open, Room room, const PlacementContext& context,
         const Policy* policy, SearchBudget& budget);

  // REQUIRES: not called before.
  Outcome run();

  // REQUIRES: run() gave kFound.
  Placement placement() const;

 private:
  using Position = std::uint8_t;  // of a card in its node

  // A container's turn to be placed.
  struct Turn {
    std::size_t container;
    bool twin;       // equal to the container of the turn before, and exchangeable with it
    Share rest;      // what this turn and the later ones ask in sum, init containers left out
    Share smallest;  // the least that one of them asks of a card, in each dimension
    std::size_t candidates = 0;
    std::array<Position, kCardsPerNodeMax> cards;  // those with room for it, best first
  };
  struct Slot {
    Share room;
    Share taken;           // as policies see it
    std::size_t equal_to;  // the lowest position of an equal card
    ContainerSet on = 0;
    Share held;     // what the pod holds so far
    Share running;  // the same without init containers
  };
  // Of a candidate; the least comes first.
  struct Rank;

  void open_slots(Room room);
  void order_turns();
  void sum_up_turns();

  const ContainerRequest& container_of(const Turn& turn) const;
  Share share_on(const Turn& turn, Position card) const;
  Share held_with(const Turn& turn, Position card) const;
  Rank rank(const Turn& turn, Position card, const Share& held) const;

  bool spend(std::size_t steps);
  bool list_candidates(Turn& turn, Position lowest);
  bool rest_may_fit(const Turn& turn) const;
  bool tried_an_equal(const Turn& turn, std::size_t from, std::size_t at) const;
  Position lowest_card_of(const Turn& turn) const;

  void put(const Turn& turn, Position card);
  void take_back(const Turn& turn, Position card);
  void take_back_all();

  bool dive();
  bool search_from(std::size_t turn);
  bool choose(std::size_t turn, std::int32_t missing, std::size_t from);

  const Node& node_;
  const PlacementContext ask_;
  std::span<const Card> cards_;
  CardSet open_;
  const GpuRequest& request_;
  const Policy* policy_;
  SearchBudget& budget_;
  ContainerSet inits_ = 0;
  bool out_of_steps_ = false;
  std::vector<Turn> turns_;
  std::vector<Slot> slots_;  // by position
};

}  // namespace mgpu::extender
