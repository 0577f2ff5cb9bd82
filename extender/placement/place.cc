#include "extender/placement/place.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/contract/limits.h"
#include "extender/placement/fit.h"
#include "extender/placement/holds.h"
#include "extender/placement/limits.h"
#include "extender/placement/links.h"
#include "extender/placement/search.h"

namespace mgpu::extender {

namespace {

// Whether a container requests less of a card than the node permits.
bool below_minimum(const Node& node, const GpuRequest& request) {
  const Share& least = node.profile.minimum;
  if (least.zero()) return false;
  return std::ranges::any_of(request.containers, [&](const ContainerRequest& container) {
    const bool memory = container.whole || container.per_card.memory >= least.memory;
    return container.per_card.core < least.core || !memory;
  });
}

bool needs_parts_of_several_cards(const GpuRequest& request) {
  return std::ranges::any_of(request.containers, [](const ContainerRequest& container) {
    return container.cards > 1 && container.per_card.core < kWholeCard;
  });
}

// Why no cards of the node can help: what its device plugin does not start.
std::optional<Reason> refused_by_profile(const Node& node, const GpuRequest& request) {
  if (below_minimum(node, request)) return Reason::kShareTooSmall;
  const bool one_card = node.profile.parts_of_one_card;
  if (one_card && needs_parts_of_several_cards(request)) return Reason::kPartsOfOneCard;
  return std::nullopt;
}

Outcome search(const Node& node, CardSet open, Room room, const GpuRequest& request,
               SearchBudget& budget) {
  return Search(node, open, room, request, nullptr, budget).run();
}

// Why cards that are linked as the pod requires do not suffice for the container alone; empty if
// they do.
std::optional<Reason> why_not_linked(const Node& node, const GpuRequest& request,
                                     const ContainerRequest& container, SearchBudget& budget) {
  const LinkRule rule = link_rule(node, request.links, container);
  if (rule == LinkRule::kNoCards) return Reason::kNoLinkedCards;
  if (rule != LinkRule::kLinked) return std::nullopt;
  const auto find = [&](CardSet cards, Room room) {
    const auto count = static_cast<std::size_t>(container.cards);
    const auto set = find_linked(node, cards_with_room(node, cards, container, room), count);
    budget.spend(set.steps);
    return set;
  };
  const ConnectedSet now = find(usable_cards(node, request.selector), Room::kNow);
  if (now.cards != 0) return std::nullopt;
  const ConnectedSet ever = find(offered_cards(node, request.selector), Room::kEmpty);
  if (!now.exact || !ever.exact) return Reason::kSearchBound;
  return ever.cards == 0 ? Reason::kNoLinkedCards : Reason::kLinkedCards;
}

// Why the container does not fit alone, with the links that the pod requires.
std::optional<Reason> why_not_one(const Node& node, const GpuRequest& request,
                                  const ContainerRequest& container,
                                  const std::optional<Reason>& alone, SearchBudget& budget) {
  if (request.links != LinkPreference::kRequired || (alone && !eviction_can_help(*alone)))
    return alone;
  const auto linked = why_not_linked(node, request, container, budget);
  return alone && linked != Reason::kNoLinkedCards ? alone : linked;
}

// REQUIRES: the request has several containers and does not fit.
Reason reason_of(const Node& node, const GpuRequest& request, SearchBudget& budget) {
  if (!budget.spend(linear_steps(node, request))) return Reason::kSearchBound;
  const CardSet matching = matching_cards(node, request.selector);
  std::optional<Reason> each;  // the first in the order of Reason that applies to one container
  for (const ContainerRequest& container : request.containers) {
    const auto reason =
        why_not_one(node, request, container, why_not_alone(node, matching, container), budget);
    if (reason && (!each || *reason < *each)) each = reason;
  }
  if (each && !eviction_can_help(*each)) return *each;
  const CardSet offered = offered_cards(node, request.selector);
  if (search(node, offered, Room::kEmpty, request, budget) == Outcome::kNone) {
    return Reason::kContainersTooLarge;
  }
  if (each) return *each;
  const bool uncertain = offered != usable_cards(node, request.selector);
  if (uncertain && search(node, offered, Room::kNow, request, budget) == Outcome::kFound) {
    return Reason::kCardsUncertain;
  }
  return Reason::kTogether;
}

std::optional<Reason> why_not_together(const Node& node, const GpuRequest& request,
                                       SearchBudget& budget) {
  if (!budget.spend(linear_steps(node, request))) return Reason::kSearchBound;
  const CardSet usable = usable_cards(node, request.selector);
  const bool each_fits = std::ranges::all_of(request.containers, [&](const auto& container) {
    return fits_alone(node, usable, container) &&
           (request.links != LinkPreference::kRequired ||
            !why_not_linked(node, request, container, budget));
  });
  if (!each_fits) return reason_of(node, request, budget);
  switch (search(node, usable, Room::kNow, request, budget)) {
    case Outcome::kFound:
      return std::nullopt;
    case Outcome::kBound:
      return Reason::kSearchBound;
    case Outcome::kNone:
      break;
  }
  return reason_of(node, request, budget);
}

// Every search of one decision may take all the steps of the decision, so that the result of one
// does not depend on another: expected placements must not cause the refusal of a pod that would be
// placed without them.
class Decision {
 public:
  Decision(const Node& node, const PlacementContext& context, const SearchBudget& budget)
      : node_(node),
        context_(context),
        usable_(usable_cards(node, context.request.selector)),
        steps_(std::min(budget.steps, kPlacementStepsMax)),
        spent_(linear_steps(node, context.request)) {}

  std::optional<Placement> find(Room room, const Policy& policy) {
    return context_.request.containers.size() == 1 ? find_alone(room, policy)
                                                   : find_all(room, policy);
  }

  void charge(SearchBudget& budget) const { budget.spend(spent_); }

 private:
  // The best cards that have room; one container needs no search.
  std::optional<Placement> find_alone(Room room, const Policy& policy) {
    const ContainerRequest& container = context_.request.containers.front();
    const std::uint32_t steps = card_steps(policy, context_, node_);
    const auto wanted = static_cast<std::size_t>(container.cards);
    std::array<LinkCandidate, kCardsPerNodeMax> best;
    std::size_t count = 0;
    for (CardSet left = usable_; left != 0; left &= left - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(left));
      const Card& card = node_.cards[at];
      const Share share = container.on(card.capacity);
      if (!share.fits_in(room_of(card, room))) continue;
      const Score score =
          policy.score_card(context_, node_, card, card.used + card.expected, share);
      best[count++] = {score, at};
      spent_ += steps;
    }
    if (count < wanted) return std::nullopt;
    std::ranges::sort(std::span(best).first(count), {}, [](const LinkCandidate& candidate) {
      return std::pair(-candidate.score, candidate.card);
    });
    CardSet chosen = choose(std::span(best).first(count), wanted);
    if (chosen == 0) return std::nullopt;
    MGPU_CHECK(std::popcount(chosen) == container.cards, "each card is taken once");
    Placement placement{{{}}};
    for (; chosen != 0; chosen &= chosen - 1) {
      placement.cards_of.front().push_back(
          node_.cards[static_cast<std::size_t>(std::countr_zero(chosen))].index);
    }
    return placement;
  }

  // The cards of the only container; none if too few are linked as the pod requires.
  CardSet choose(std::span<const LinkCandidate> best, std::size_t count) {
    const GpuRequest& request = context_.request;
    const LinkRule rule = link_rule(node_, request.links, request.containers.front());
    CardSet first = 0;
    for (const LinkCandidate& candidate : best.first(count)) first |= CardSet{1} << candidate.card;
    if (rule == LinkRule::kNone || (rule == LinkRule::kBest && !context_.by_links)) return first;
    if (rule == LinkRule::kNoCards) return 0;
    const ConnectedSet set = rule == LinkRule::kLinked ? best_linked(*node_.links, best, count)
                                                       : best_connected(*node_.links, best, count);
    spent_ += set.steps;
    if (set.cards != 0 || set.exact) return set.cards;
    CardSet all = 0;
    for (const LinkCandidate& candidate : best) all |= CardSet{1} << candidate.card;
    return find_linked(node_, all, count).cards;
  }

  // In the policy's order; where the steps are too few for that, in the order that why_not
  // searches, so that a pod for which why_not finds no reason is placed.
  std::optional<Placement> find_all(Room room, const Policy& policy) {
    for (const Policy* order : {&policy, static_cast<const Policy*>(nullptr)}) {
      SearchBudget left{steps_};
      Search search(node_, usable_, room, context_, order, left);
      const Outcome outcome = search.run();
      MGPU_CHECK(left.steps <= steps_, "a search does not give steps back");
      spent_ += steps_ - left.steps;
      if (outcome == Outcome::kFound) return search.placement();
      if (outcome == Outcome::kNone) break;
    }
    return std::nullopt;
  }

  const Node& node_;
  const PlacementContext& context_;
  CardSet usable_;
  std::uint32_t steps_;
  std::uint64_t spent_;
};

bool are_linked(const Node& node, const std::vector<CardIndex>& cards) {
  const auto position = [&](CardIndex card) {
    return static_cast<std::size_t>(node.find(card) - node.cards.data());
  };
  for (const CardIndex a : cards) {
    for (const CardIndex b : cards) {
      if (a == b) continue;
      if (node.links == nullptr || node.links->between(position(a), position(b)) < Link::kNvlink)
        return false;
    }
  }
  return true;
}

// Whether the placement is valid now: each container has as many distinct cards as it requests,
// linked as the pod requires, which the pod may use and which have room for all that the pod holds
// of them. It is checked apart from the searches.
bool is_valid(const Node& node, const GpuRequest& request, const Placement& placement) {
  if (placement.cards_of.size() != request.containers.size()) return false;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const auto& cards = placement.cards_of[i];
    const bool ascending =
        std::ranges::adjacent_find(cards, std::ranges::greater_equal{}) == cards.end();
    if (!ascending || std::cmp_not_equal(cards.size(), request.containers[i].cards)) return false;
    if (request.links == LinkPreference::kRequired && !are_linked(node, cards)) return false;
  }
  return std::ranges::all_of(holds(node, request, placement), [&](const CardHold& hold) {
    const Card* card = node.find(hold.card);
    return card != nullptr && card->usable() && matches(request.selector, *card) &&
           hold.share.fits_in(card->room());
  });
}

}  // namespace

std::uint64_t linear_steps(const Node& node, const GpuRequest& request) {
  const CardSelector& selector = request.selector;
  const std::size_t names = selector.models.size() + selector.models_excluded.size() +
                            selector.uuids.size() + selector.uuids_excluded.size();
  return cards_of(node).size() * (names + request.containers.size());
}

std::optional<Reason> why_not(const Node& node, const GpuRequest& request, SearchBudget& budget) {
  if (request.empty()) return std::nullopt;
  if (const auto refused = refused_by_profile(node, request)) return refused;
  if (request.containers.size() == 1) {
    budget.spend(linear_steps(node, request));
    const ContainerRequest& container = request.containers.front();
    const bool fits = fits_alone(node, request.selector, container);
    if (fits && request.links != LinkPreference::kRequired) return std::nullopt;
    const auto alone = fits ? std::nullopt : why_not_alone(node, request.selector, container);
    return why_not_one(node, request, container, alone, budget);
  }
  // No node may use up the steps of all nodes.
  SearchBudget own{std::min(budget.steps, kPlacementStepsMax)};
  const std::uint32_t given = own.steps;
  const auto reason = why_not_together(node, request, own);
  MGPU_CHECK(own.steps <= given && given <= budget.steps, "a reason takes steps of the budget");
  budget.steps -= given - own.steps;
  return reason;
}

std::optional<Reason> why_not(const Node& node, const Node& available, const GpuRequest& request,
                              SearchBudget& budget) {
  if (!why_not(available, request, budget)) return std::nullopt;
  return why_not(node, request, budget).value_or(Reason::kNominated);
}

std::variant<Placed, Reason> place(const Node& node, const PlacementContext& context,
                                   const Policy& card_policy, SearchBudget& budget) {
  if (const auto refused = refused_by_profile(node, context.request)) return *refused;
  const Policy& policy = follows_profile(node, context.request) ? *node.card_policy : card_policy;
  Decision decision(node, context, budget);
  const bool expected =
      std::ranges::any_of(node.cards, [](const Card& card) { return !card.expected.zero(); });
  auto placement = expected ? decision.find(Room::kAfterExpected, policy) : std::nullopt;
  const bool beside = !expected || placement.has_value();
  if (!placement) placement = decision.find(Room::kNow, policy);
  if (placement) {
    MGPU_DEBUG_CHECK(is_valid(node, context.request, *placement),
                     "a placement that the node can take");
    decision.charge(budget);
    return Placed{std::move(*placement), beside};
  }
  const auto reason = why_not(node, context.request, budget);
  decision.charge(budget);
  return reason.value_or(Reason::kSearchBound);
}

}  // namespace mgpu::extender
