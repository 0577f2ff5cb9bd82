// Containers are placed in turns, and each turn chooses its container's cards.
//
// Order of turns (order_turns): the container that takes the largest part of a card comes first, of
// equal ones that with more cards, init containers after the others. Large pieces have the fewest
// places, so that a dead end shows early; an init container often costs nothing on cards where the
// pod has app containers already, which is known only after these.
//
// run() answers in three steps, from cheap to dear:
//   1. rest_may_fit: the sum of all requests against the sum of the room. O(cards).
//   2. dive: each turn takes the best cards of its list and never goes back.
//      O(containers * cards * log cards). It answers for nearly every pod that fits at all.
//   3. search_from: the same with backtracking over all subsets of cards of each turn. Exponential,
//      and therefore counted in steps of SearchBudget. What the header says is left out makes it
//      small for the nodes of real clusters, whose cards are mostly equal.
//
// A step is one card looked at, in a list or in a choice, so that steps measure time.
//
// What a pod holds of a card is not the sum of its containers (holds.h): Slot::held is computed
// from the set of containers on the card, Slot::running is the sum without init containers.
// `running` is what the bound of rest_may_fit needs, since it is never more than `held`.
#include "extender/placement/search.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/contract/limits.h"

namespace mgpu::extender {

namespace {

ContainerSet bit(std::size_t container) {
  return ContainerSet{1} << container;
}

// The part of the largest card that a container takes, in its scarcer dimension, in millionths.
std::int64_t hardness(const ContainerRequest& container, MiB largest) {
  constexpr std::int64_t kWhole = 1'000'000;
  if (container.whole) return kWhole;
  const std::int64_t core = container.per_card.core.value() * kWhole / kWholeCard.value();
  const std::int64_t memory = std::min(container.per_card.memory, largest).value() * kWhole;
  return std::max(core, memory / std::max<std::int64_t>(largest.value(), 1));
}

bool exchangeable(const GpuRequest& request, std::size_t a, std::size_t b) {
  const ContainerRequest& first = request.containers[a];
  const ContainerRequest& second = request.containers[b];
  // Between init containers and sidecars the order counts: only neighbours change places freely.
  const bool ordered = first.kind != ContainerKind::kApp && b != a + 1;
  return !ordered && first.kind == second.kind && first.cards == second.cards &&
         first.per_card == second.per_card && first.whole == second.whole;
}

}  // namespace

struct Search::Rank {
  int overlap;  // 0: adds nothing to what the pod holds; 1: beside what runs at another time; 2
  Score deficit;
  Position card;

  auto operator<=>(const Rank&) const = default;
};

Search::Search(const Node& node, CardSet open, Room room, const PlacementContext& context,
               const Policy* policy, SearchBudget& budget)
    : node_(node),
      ask_(context),
      cards_(cards_of(node)),
      open_(open),
      request_(context.request),
      policy_(policy),
      budget_(budget) {
  MGPU_CHECK(request_.containers.size() <= kGpuContainersPerPodMax, "too many containers");
  for (std::size_t i = 0; i < request_.containers.size(); ++i) {
    if (request_.containers[i].kind == ContainerKind::kInit) inits_ |= bit(i);
  }
  open_slots(room);
  order_turns();
  sum_up_turns();
}

// `equal_to` makes classes of cards that no later step can tell apart, but for their position: the
// first card of each class stands for it in tried_an_equal.
void Search::open_slots(Room room) {
  slots_.resize(cards_.size());
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    const Card& card = cards_[i];
    Slot& slot = slots_[i];
    slot.room = room_of(card, room);
    if (policy_ != nullptr) slot.taken = card.used + card.expected;
    for (slot.equal_to = 0; slot.equal_to < i; ++slot.equal_to) {
      const Slot& other = slots_[slot.equal_to];
      const Share& capacity = cards_[slot.equal_to].capacity;
      if (other.room == slot.room && other.taken == slot.taken && capacity == card.capacity) break;
    }
  }
}

void Search::order_turns() {
  MiB largest;
  for (const Card& card : cards_) largest = std::max(largest, card.capacity.memory);
  using Key =
      std::tuple<std::int64_t, std::int32_t, bool, ContainerKind, Percent, MiB, std::size_t>;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < request_.containers.size(); ++i) {
    const ContainerRequest& container = request_.containers[i];
    keys.emplace_back(-hardness(container, largest), -container.cards,
                      container.kind == ContainerKind::kInit, container.kind,
                      container.per_card.core, container.per_card.memory, i);
  }
  std::ranges::sort(keys);
  turns_.resize(keys.size());
  for (std::size_t turn = 0; turn < keys.size(); ++turn) {
    const std::size_t container = std::get<std::size_t>(keys[turn]);
    turns_[turn].container = container;
    turns_[turn].twin = turn > 0 && exchangeable(request_, turns_[turn - 1].container, container);
  }
}

void Search::sum_up_turns() {
  Share rest;
  Share smallest{Percent(Percent::kMax), MiB(MiB::kMax)};
  for (auto turn = turns_.rbegin(); turn != turns_.rend(); ++turn) {
    const ContainerRequest& container = container_of(*turn);
    if (container.kind != ContainerKind::kInit) {
      for (std::int32_t i = 0; i < container.cards; ++i) rest += container.per_card;
      smallest.core = std::min(smallest.core, container.per_card.core);
      smallest.memory = std::min(smallest.memory, container.per_card.memory);
    }
    turn->rest = rest;
    turn->smallest = smallest;
  }
}

const ContainerRequest& Search::container_of(const Turn& turn) const {
  return request_.containers[turn.container];
}

Share Search::share_on(const Turn& turn, Position card) const {
  return container_of(turn).on(cards_[card].capacity);
}

Share Search::held_with(const Turn& turn, Position card) const {
  return hold_on(cards_[card].capacity, request_.containers, slots_[card].on | bit(turn.container));
}

Search::Rank Search::rank(const Turn& turn, Position card, const Share& held) const {
  const Slot& slot = slots_[card];
  const bool init = container_of(turn).kind == ContainerKind::kInit;
  const bool other_time = slot.on != 0 && (init || (slot.on & ~inits_) == 0);
  Rank rank{.overlap = held == slot.held ? 0 : other_time ? 1 : 2, .deficit = 0, .card = card};
  if (policy_ != nullptr) {
    const Share taken = slot.taken + slot.held;
    rank.deficit = -policy_->score_card(ask_, node_, cards_[card], taken, share_on(turn, card));
  }
  return rank;
}

bool Search::spend(std::size_t steps) {
  if (budget_.steps < steps) {
    budget_.steps = 0;
    out_of_steps_ = true;
    return false;
  }
  budget_.steps -= static_cast<std::uint32_t>(steps);
  return true;
}

// False when there are too few, or the steps ran out.
bool Search::list_candidates(Turn& turn, Position lowest) {
  if (!spend(slots_.size() - lowest)) return false;
  std::array<Rank, kCardsPerNodeMax> ranks;
  std::size_t count = 0;
  for (CardSet left = open_ & (~CardSet{0} << lowest); left != 0; left &= left - 1) {
    const auto card = static_cast<Position>(std::countr_zero(left));
    const Share held = held_with(turn, card);
    if (held.fits_in(slots_[card].room)) ranks[count++] = rank(turn, card, held);
  }
  std::sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) turn.cards[i] = ranks[i].card;
  turn.candidates = count;
  return std::cmp_greater_equal(count, container_of(turn).cards);
}

// A bound from above: cards too full for the smallest of the rest are of no use to it.
bool Search::rest_may_fit(const Turn& turn) const {
  if (turn.rest.zero()) return true;
  Share free;
  for (CardSet left = open_; left != 0; left &= left - 1) {
    const Slot& slot = slots_[static_cast<std::size_t>(std::countr_zero(left))];
    const Share of_card = room_in(slot.room, slot.running);
    if (turn.smallest.fits_in(of_card)) free += of_card;
  }
  return turn.rest.fits_in(free);
}

// Whether an earlier candidate of this turn, equal and with the same containers on it, was tried:
// what follows from it is what would follow from this one, with the two cards exchanged.
bool Search::tried_an_equal(const Turn& turn, std::size_t from, std::size_t at) const {
  const Slot& slot = slots_[turn.cards[at]];
  for (std::size_t i = from; i < at; ++i) {
    const Slot& tried = slots_[turn.cards[i]];
    if (tried.equal_to == slot.equal_to && tried.on == slot.on) return true;
  }
  return false;
}

Search::Position Search::lowest_card_of(const Turn& turn) const {
  const auto chosen = [&](const Slot& slot) { return (slot.on & bit(turn.container)) != 0; };
  return static_cast<Position>(std::ranges::find_if(slots_, chosen) - slots_.begin());
}

void Search::put(const Turn& turn, Position card) {
  Slot& slot = slots_[card];
  slot.held = held_with(turn, card);
  slot.on |= bit(turn.container);
  if (container_of(turn).kind != ContainerKind::kInit) slot.running += share_on(turn, card);
}

void Search::take_back(const Turn& turn, Position card) {
  Slot& slot = slots_[card];
  slot.on &= ~bit(turn.container);
  slot.held = hold_on(cards_[card].capacity, request_.containers, slot.on);
  if (container_of(turn).kind != ContainerKind::kInit) slot.running -= share_on(turn, card);
}

void Search::take_back_all() {
  for (Slot& slot : slots_) {
    slot.on = 0;
    slot.held = slot.running = Share{};
  }
}

bool Search::dive() {
  for (Turn& turn : turns_) {
    if (!list_candidates(turn, 0)) return false;
    const auto wanted = static_cast<std::size_t>(container_of(turn).cards);
    for (std::size_t i = 0; i < wanted; ++i) put(turn, turn.cards[i]);
  }
  return true;
}

// Of two exchangeable containers the later one takes no card below the earlier one's lowest: the
// other order is the same placement with the two exchanged.
bool Search::search_from(std::size_t at) {
  if (at == turns_.size()) return true;
  Turn& turn = turns_[at];
  if (!rest_may_fit(turn)) return false;
  const Position lowest = turn.twin ? lowest_card_of(turns_[at - 1]) : Position{0};
  return list_candidates(turn, lowest) && choose(at, container_of(turn).cards, 0);
}

// Equal cards stand in a turn's list in the order of their positions, so that leaving out the
// later ones never leaves out what a twin of this container may still use.
bool Search::choose(std::size_t at, std::int32_t missing, std::size_t from) {
  if (missing == 0) return search_from(at + 1);
  const Turn& turn = turns_[at];
  for (std::size_t i = from; i + static_cast<std::size_t>(missing) <= turn.candidates; ++i) {
    if (tried_an_equal(turn, from, i)) continue;
    if (!spend(1)) return false;
    put(turn, turn.cards[i]);
    if (choose(at, missing - 1, i + 1)) return true;
    take_back(turn, turn.cards[i]);
    if (out_of_steps_) return false;
  }
  return false;
}

Outcome Search::run() {
  if (turns_.empty()) return Outcome::kFound;
  if (!rest_may_fit(turns_.front())) return Outcome::kNone;
  if (dive()) return Outcome::kFound;
  take_back_all();
  if (!out_of_steps_ && search_from(0)) return Outcome::kFound;
  return out_of_steps_ ? Outcome::kBound : Outcome::kNone;
}

Placement Search::placement() const {
  Placement placement;
  placement.cards_of.resize(request_.containers.size());
  for (std::size_t card = 0; card < slots_.size(); ++card) {
    for (ContainerSet left = slots_[card].on; left != 0; left &= left - 1) {
      const auto container = static_cast<std::size_t>(std::countr_zero(left));
      placement.cards_of[container].push_back(cards_[card].index);
    }
  }
  return placement;
}

}  // namespace mgpu::extender
