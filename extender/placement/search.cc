// The search has a level for each container, which chooses its cards.
//
// Order of levels (order_levels): the container that takes the largest fraction of a card comes
// first, of equal ones that with more cards, init containers after the others. Large requests have
// the fewest feasible cards, so that a branch without a solution ends early. An init container
// often costs nothing on cards where the pod has app containers, which is known only after these.
//
// run() has three steps, in the order of their cost:
//   1. rest_may_fit: the sum of all requests against the sum of the room. O(cards).
//   2. place_greedily: each level takes the best cards of its list, without backtracking.
//      O(containers * cards * log cards). It finds a placement of nearly every pod that fits.
//   3. search_from: the same with backtracking over all subsets of cards of each level.
//   Exponential,
//      and therefore counted in steps of SearchBudget. The rules in the header keep it small for
//      the nodes of real clusters, whose cards are mostly equal.
//
// A step is as long as one card examined. What takes longer takes more steps: the score of a policy
// by Policy::steps, and what a pod holds of a card by the number of its containers there. So steps
// measure time.
//
// What a pod holds of a card is not the sum of its containers (holds.h): Slot::held is computed
// from the set of containers on the card, Slot::running is the sum without init containers.
// rest_may_fit uses `running` for its bound, since it is never more than `held`.
#include "extender/placement/search.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/contract/limits.h"

namespace mgpu::extender {

namespace {

// Cards that are summed up or compared in the time of a step.
constexpr std::size_t kCardsSummedPerStep = 8;

ContainerSet bit(std::size_t container) {
  return ContainerSet{1} << container;
}

// The fraction of the largest card that a container takes, in its scarcer dimension, in millionths.
std::int64_t fraction_of(const ContainerRequest& container, MiB largest) {
  constexpr std::int64_t kWhole = 1'000'000;
  if (container.whole) return kWhole;
  const std::int64_t core = container.per_card.core.value() * kWhole / kWholeCard.value();
  const std::int64_t memory = std::min(container.per_card.memory, largest).value() * kWhole;
  return std::max(core, memory / std::max<std::int64_t>(largest.value(), 1));
}

bool exchangeable(const GpuRequest& request, std::size_t a, std::size_t b) {
  const ContainerRequest& first = request.containers[a];
  const ContainerRequest& second = request.containers[b];
  // The order of init containers and sidecars matters: only neighbours are exchangeable.
  const bool ordered = first.kind != ContainerKind::kApp && b != a + 1;
  return !ordered && first.kind == second.kind && first.cards == second.cards &&
         first.per_card == second.per_card && first.whole == second.whole;
}

}  // namespace

struct Search::Rank {
  // 0 where it adds nothing to what the pod holds, 1 where it runs at another time, else 2.
  int overlap;
  Score deficit;
  Position card;

  auto operator<=>(const Rank&) const = default;
};

Search::Search(const Node& node, CardSet open, Room room, const PlacementContext& context,
               const Policy* policy, SearchBudget& budget)
    : node_(node),
      context_(context),
      cards_(cards_of(node)),
      open_(open),
      request_(context.request),
      policy_(policy),
      rank_steps_(policy == nullptr ? 0 : card_steps(*policy, context, node)),
      budget_(budget) {
  MGPU_CHECK(request_.containers.size() <= kGpuContainersPerPodMax, "too many containers");
  for (std::size_t i = 0; i < request_.containers.size(); ++i) {
    if (request_.containers[i].kind == ContainerKind::kInit) inits_ |= bit(i);
  }
  open_slots(room);
  order_levels();
  sum_up_levels();
}

// `equal_to` groups cards that differ only in their position: the first card of each group stands
// for it in tried_an_equal. Where each two cards must be linked, no card stands for another.
void Search::open_slots(Room room) {
  const bool by_pairs = std::ranges::any_of(request_.containers, [&](const auto& container) {
    return link_rule(node_, request_.links, container) == LinkRule::kLinked;
  });
  slots_.resize(cards_.size());
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    const Card& card = cards_[i];
    Slot& slot = slots_[i];
    slot.room = room_of(card, room);
    if (policy_ != nullptr) slot.taken = card.used + card.expected;
    for (slot.equal_to = 0; slot.equal_to < i; ++slot.equal_to) {
      const Slot& other = slots_[slot.equal_to];
      const Share& capacity = cards_[slot.equal_to].capacity;
      if (by_pairs) continue;
      const bool same_kind = policy_ == nullptr || cards_[slot.equal_to].kind == card.kind;
      if (same_kind && other.room == slot.room && other.taken == slot.taken &&
          capacity == card.capacity)
        break;
    }
  }
}

void Search::order_levels() {
  MiB largest;
  for (const Card& card : cards_) largest = std::max(largest, card.capacity.memory);
  using Key =
      std::tuple<std::int64_t, std::int32_t, bool, ContainerKind, Percent, MiB, std::size_t>;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < request_.containers.size(); ++i) {
    const ContainerRequest& container = request_.containers[i];
    keys.emplace_back(-fraction_of(container, largest), -container.cards,
                      container.kind == ContainerKind::kInit, container.kind,
                      container.per_card.core, container.per_card.memory, i);
  }
  std::ranges::sort(keys);
  levels_.resize(keys.size());
  for (std::size_t level = 0; level < keys.size(); ++level) {
    const std::size_t container = std::get<std::size_t>(keys[level]);
    levels_[level].container = container;
    levels_[level].links = link_rule(node_, request_.links, request_.containers[container]);
    levels_[level].same_as_last =
        level > 0 && exchangeable(request_, levels_[level - 1].container, container);
  }
}

void Search::sum_up_levels() {
  Share rest;
  Share smallest{Percent(Percent::kMax), MiB(MiB::kMax)};
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const ContainerRequest& container = container_of(*level);
    if (container.kind != ContainerKind::kInit) {
      for (std::int32_t i = 0; i < container.cards; ++i) rest += container.per_card;
      smallest.core = std::min(smallest.core, container.per_card.core);
      smallest.memory = std::min(smallest.memory, container.per_card.memory);
    }
    level->rest = rest;
    level->smallest = smallest;
  }
}

const ContainerRequest& Search::container_of(const Level& level) const {
  return request_.containers[level.container];
}

Search::Rank Search::rank(const Level& level, Position card, const Share& held) const {
  const Slot& slot = slots_[card];
  const bool init = container_of(level).kind == ContainerKind::kInit;
  const bool other_time = slot.on != 0 && (init || (slot.on & ~inits_) == 0);
  Rank rank{.overlap = held == slot.held ? 0 : other_time ? 1 : 2, .deficit = 0, .card = card};
  if (policy_ != nullptr) {
    const Share share = container_of(level).on(cards_[card].capacity);
    rank.deficit =
        -policy_->score_card(context_, node_, cards_[card], slot.taken + slot.held, share);
  }
  return rank;
}

bool Search::spend(std::size_t steps) {
  if (budget_.spend(steps)) return true;
  out_of_steps_ = true;
  return false;
}

// Returns the steps of what the constructor does for each card and each pair of cards, and for each
// level.
std::size_t Search::opening_steps() const {
  constexpr std::size_t kPairsPerStep = 32;
  return slots_.size() + slots_.size() * slots_.size() / kPairsPerStep + 2 * levels_.size();
}

// Returns the steps to compute `times` what the pod holds of a card with this many containers.
std::size_t Search::hold_steps(const Slot& slot, std::size_t times) {
  constexpr std::size_t kContainersPerStep = 4;
  return times * static_cast<std::size_t>(std::popcount(slot.on)) / kContainersPerStep;
}

// False if there are too few, or the steps ran out. Equal cards have the rank of the first one,
// whatever the policy prefers: choose needs them in the order of their positions.
bool Search::list_candidates(Level& level, Position lowest) {
  if (!spend(slots_.size() - lowest)) return false;
  std::array<Rank, kCardsPerNodeMax> ranks;
  std::size_t count = 0;
  for (CardSet left = open_ & (~CardSet{0} << lowest); left != 0; left &= left - 1) {
    const auto card = static_cast<Position>(std::countr_zero(left));
    if (!spend(hold_steps(slots_[card], 1))) return false;
    const Share held =
        hold_on(cards_[card].capacity, request_.containers, slots_[card].on | bit(level.container));
    if (!held.fits_in(slots_[card].room)) continue;
    const auto listed = std::span(ranks).first(count);
    // Without a policy equal cards have equal ranks by themselves.
    const auto equal = std::ranges::find_if(listed, [&](const Rank& one) {
      const Slot& other = slots_[one.card];
      return policy_ != nullptr && other.equal_to == slots_[card].equal_to &&
             other.on == slots_[card].on;
    });
    if (equal == listed.end()) {
      if (!spend(rank_steps_)) return false;
      ranks[count++] = rank(level, card, held);
    } else {
      ranks[count++] = {equal->overlap, equal->deficit, card};
    }
  }
  std::sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count));
  const auto better = [&](std::size_t i) {
    return std::tuple(ranks[i - 1].overlap, ranks[i - 1].deficit) !=
           std::tuple(ranks[i].overlap, ranks[i].deficit);
  };
  for (std::size_t i = 0; i < count; ++i) {
    level.cards[i] = ranks[i].card;
    level.tie[i] = i == 0 ? 0 : static_cast<std::uint8_t>(level.tie[i - 1] + better(i));
  }
  level.candidates = count;
  return std::cmp_greater_equal(count, container_of(level).cards);
}

// An upper bound: cards without room for the smallest of the remaining requests do not count.
bool Search::rest_may_fit(const Level& level) const {
  if (level.rest.zero()) return true;
  Share free;
  for (CardSet left = open_; left != 0; left &= left - 1) {
    const Slot& slot = slots_[static_cast<std::size_t>(std::countr_zero(left))];
    const Share of_card = room_in(slot.room, slot.running);
    if (level.smallest.fits_in(of_card)) free += of_card;
  }
  return level.rest.fits_in(free);
}

// Whether an equal candidate of this level with the same containers on it was tried before: the
// result for this one would be the same, with the two cards exchanged.
bool Search::tried_an_equal(const Level& level, std::size_t from, std::size_t at) const {
  const Slot& slot = slots_[level.cards[at]];
  for (std::size_t i = from; i < at; ++i) {
    const Slot& tried = slots_[level.cards[i]];
    if (tried.equal_to == slot.equal_to && tried.on == slot.on) return true;
  }
  return false;
}

// Places the container on the card, or removes it from there.
void Search::toggle(const Level& level, Position card) {
  Slot& slot = slots_[card];
  slot.on ^= bit(level.container);
  slot.held = hold_on(cards_[card].capacity, request_.containers, slot.on);
  slot.running = hold_on(cards_[card].capacity, request_.containers, slot.on & ~inits_);
}

// Puts the best connected of the best cards first in the list. False if too few cards are linked as
// the pod requires, or the steps ran out.
bool Search::prefer_connected(Level& level) {
  const bool best = level.links == LinkRule::kBest && policy_ != nullptr && context_.by_links;
  if (!best && level.links != LinkRule::kLinked) return true;
  std::array<LinkCandidate, kCardsPerNodeMax> candidates;
  for (std::size_t i = 0; i < level.candidates; ++i)
    candidates[i] = {-Score{level.tie[i]}, level.cards[i]};
  const auto listed = std::span(candidates).first(level.candidates);
  const auto count = static_cast<std::size_t>(container_of(level).cards);
  const ConnectedSet set =
      best ? best_connected(*node_.links, listed, count) : best_linked(*node_.links, listed, count);
  if (!spend(set.steps) || set.cards == 0) return false;
  const auto end = level.cards.begin() + static_cast<std::ptrdiff_t>(level.candidates);
  std::stable_partition(level.cards.begin(), end,
                        [&](Position card) { return (set.cards >> card & 1) != 0; });
  return true;
}

bool Search::linked_with(CardSet chosen, Position card) const {
  for (; chosen != 0; chosen &= chosen - 1) {
    const auto other = static_cast<std::size_t>(std::countr_zero(chosen));
    if (node_.links->between(other, card) < Link::kNvlink) return false;
  }
  return true;
}

bool Search::place_greedily() {
  for (Level& level : levels_) {
    if (!list_candidates(level, 0) || !prefer_connected(level)) return false;
    const auto wanted = static_cast<std::size_t>(container_of(level).cards);
    for (std::size_t i = 0; i < wanted; ++i) {
      if (!spend(1 + hold_steps(slots_[level.cards[i]], 2))) return false;
      toggle(level, level.cards[i]);
    }
  }
  return true;
}

// If two containers are exchangeable, the later one takes no card below the lowest card of the
// earlier one: that would be the same placement with the two exchanged.
bool Search::search_from(std::size_t at) {
  if (at == levels_.size()) return true;
  Level& level = levels_[at];
  if (!spend(1 + slots_.size() / kCardsSummedPerStep) || !rest_may_fit(level)) return false;
  const auto has_last = [&](const Slot& slot) {
    return !level.same_as_last || (slot.on & bit(levels_[at - 1].container)) != 0;
  };
  const auto lowest = std::ranges::find_if(slots_, has_last) - slots_.begin();
  return list_candidates(level, static_cast<Position>(lowest)) &&
         choose(at, container_of(level).cards, 0, 0);
}

// Equal cards are in a level's list in the order of their positions, so that a skipped card is
// never one that the next, exchangeable container could still use.
bool Search::choose(std::size_t at, std::int32_t missing, std::size_t from, CardSet chosen) {
  if (missing == 0) return search_from(at + 1);
  const Level& level = levels_[at];
  for (std::size_t i = from; i + static_cast<std::size_t>(missing) <= level.candidates; ++i) {
    // Each candidate is compared with those before it, placed, and removed.
    if (!spend((i - from) / kCardsSummedPerStep)) return false;
    if (tried_an_equal(level, from, i)) continue;
    if (level.links == LinkRule::kLinked && !linked_with(chosen, level.cards[i])) continue;
    if (!spend(1 + hold_steps(slots_[level.cards[i]], 4))) return false;
    toggle(level, level.cards[i]);
    const CardSet with = chosen | CardSet{1} << level.cards[i];
    if (choose(at, missing - 1, i + 1, with)) return true;
    toggle(level, level.cards[i]);
    if (out_of_steps_) return false;
  }
  return false;
}

Outcome Search::run() {
  if (levels_.empty()) return Outcome::kFound;
  if (!spend(opening_steps())) return Outcome::kBound;
  if (!rest_may_fit(levels_.front())) return Outcome::kNone;
  const auto has_none = [](const Level& level) { return level.links == LinkRule::kNoCards; };
  if (std::ranges::any_of(levels_, has_none)) return Outcome::kNone;
  if (place_greedily()) return Outcome::kFound;
  for (Slot& slot : slots_) {
    slot.on = 0;
    slot.held = slot.running = Share{};
  }
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
