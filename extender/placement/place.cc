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
#include "extender/placement/search.h"

namespace mgpu::extender {

namespace {

// The first of Reason's order that holds for one of the containers.
std::optional<Reason> why_not_each(const Node& node, const GpuRequest& request) {
  std::optional<Reason> first;
  for (const ContainerRequest& container : request.containers) {
    const auto reason = why_not_alone(node, request.selector, container);
    if (reason && (!first || *reason < *first)) first = reason;
  }
  return first;
}

bool each_fits(const Node& node, const GpuRequest& request) {
  return std::ranges::all_of(request.containers, [&](const ContainerRequest& container) {
    return fits_alone(node, request.selector, container);
  });
}

Outcome search(const Node& node, CardSet open, Room room, const GpuRequest& request,
               SearchBudget& budget) {
  return Search(node, open, room, request, nullptr, budget).run();
}

// REQUIRES: the request does not fit.
Reason reason_of(const Node& node, const GpuRequest& request, SearchBudget& budget) {
  const auto each = why_not_each(node, request);
  if (each && (request.containers.size() == 1 || !eviction_can_help(*each))) return *each;
  const CardSet healthy = healthy_cards(node, request.selector);
  if (search(node, healthy, Room::kEmpty, request, budget) == Outcome::kNone) {
    return Reason::kContainersTooLarge;
  }
  if (each) return *each;
  const bool uncertain = healthy != usable_cards(node, request.selector);
  if (uncertain && search(node, healthy, Room::kNow, request, budget) == Outcome::kFound) {
    return Reason::kCardsUncertain;
  }
  return Reason::kTogether;
}

std::optional<Reason> why_not_together(const Node& node, const GpuRequest& request,
                                       SearchBudget& budget) {
  if (!each_fits(node, request)) return reason_of(node, request, budget);
  const CardSet usable = usable_cards(node, request.selector);
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

// Every search of one decision may take as many steps as the decision was given, so that none
// starves another: pods on their way must not make a refusal of what would be placed without them.
class Decision {
 public:
  Decision(const Node& node, const PlacementContext& context, const SearchBudget& budget)
      : node_(node),
        ask_(context),
        usable_(usable_cards(node, context.request.selector)),
        steps_(std::min(budget.steps, kPlacementStepsMax)) {}

  std::optional<Placement> find(Room room, const Policy& policy) {
    return ask_.request.containers.size() == 1 ? find_alone(room, policy) : find_all(room, policy);
  }

  void charge(SearchBudget& budget) const { budget.steps -= std::min(budget.steps, spent_); }

 private:
  // The best cards that have room: of one container no search is needed.
  std::optional<Placement> find_alone(Room room, const Policy& policy) const {
    const ContainerRequest& container = ask_.request.containers.front();
    std::array<std::pair<Score, CardIndex>, kCardsPerNodeMax> best;
    std::ptrdiff_t count = 0;
    for (CardSet left = usable_; left != 0; left &= left - 1) {
      const Card& card = node_.cards[static_cast<std::size_t>(std::countr_zero(left))];
      const Share share = container.on(card.capacity);
      if (!share.fits_in(room_of(card, room))) continue;
      const Score score = policy.score_card(ask_, node_, card, card.used + card.expected, share);
      best[static_cast<std::size_t>(count++)] = {-score, card.index};
    }
    if (count < container.cards) return std::nullopt;
    std::partial_sort(best.begin(), best.begin() + container.cards, best.begin() + count);
    Placement placement{{std::vector<CardIndex>(static_cast<std::size_t>(container.cards))}};
    auto& cards = placement.cards_of.front();
    std::transform(best.begin(), best.begin() + container.cards, cards.begin(),
                   [](const auto& ranked) { return ranked.second; });
    std::ranges::sort(cards);
    return placement;
  }

  // By the policy's order; where the steps are too few for that, in the order that why_not
  // searches, so that what it said to fit is placed.
  std::optional<Placement> find_all(Room room, const Policy& policy) {
    Outcome outcome = Outcome::kBound;
    auto placement = find_by(room, &policy, outcome);
    if (outcome == Outcome::kBound) placement = find_by(room, nullptr, outcome);
    return placement;
  }

  std::optional<Placement> find_by(Room room, const Policy* policy, Outcome& outcome) {
    SearchBudget left{steps_};
    Search search(node_, usable_, room, ask_, policy, left);
    outcome = search.run();
    spent_ += steps_ - left.steps;
    if (outcome != Outcome::kFound) return std::nullopt;
    return search.placement();
  }

  const Node& node_;
  const PlacementContext& ask_;
  CardSet usable_;
  std::uint32_t steps_;
  std::uint32_t spent_ = 0;
};

// Whether the pod can be put there now: on cards that it may use, as many as each container asks
// for, each once, and each with room for all that the pod holds of it. What the searches look for,
// written down a second time from the answer.
bool is_sound(const Node& node, const GpuRequest& request, const Placement& placement) {
  if (placement.cards_of.size() != request.containers.size()) return false;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const auto& cards = placement.cards_of[i];
    const bool ascending =
        std::ranges::adjacent_find(cards, std::ranges::greater_equal{}) == cards.end();
    if (!ascending || std::cmp_not_equal(cards.size(), request.containers[i].cards)) return false;
  }
  return std::ranges::all_of(holds(node, request, placement), [&](const CardHold& hold) {
    const Card* card = node.find(hold.card);
    return card != nullptr && card->usable() && matches(request.selector, *card) &&
           hold.share.fits_in(card->room());
  });
}

bool expects_pods(const Node& node) {
  return std::ranges::any_of(node.cards, [](const Card& card) { return !card.expected.zero(); });
}

}  // namespace

std::optional<Reason> why_not(const Node& node, const GpuRequest& request, SearchBudget& budget) {
  if (request.empty()) return std::nullopt;
  if (request.containers.size() == 1) {
    const ContainerRequest& container = request.containers.front();
    if (fits_alone(node, request.selector, container)) return std::nullopt;
    return why_not_alone(node, request.selector, container);
  }
  // No node may spend what is meant for all of them.
  SearchBudget own{std::min(budget.steps, kPlacementStepsMax)};
  const std::uint32_t given = own.steps;
  const auto reason = why_not_together(node, request, own);
  budget.steps -= given - own.steps;
  return reason;
}

std::variant<Placed, Reason> place(const Node& node, const PlacementContext& context,
                                   const Policy& card_policy, SearchBudget& budget) {
  Decision decision(node, context, budget);
  const bool expected = expects_pods(node);
  auto placement = expected ? decision.find(Room::kAfterExpected, card_policy) : std::nullopt;
  const bool beside = !expected || placement.has_value();
  if (!placement) placement = decision.find(Room::kNow, card_policy);
  if (placement) {
    MGPU_DEBUG_CHECK(is_sound(node, context.request, *placement),
                     "a placement that the node can take");
    decision.charge(budget);
    return Placed{std::move(*placement), beside};
  }
  const auto reason = why_not(node, context.request, budget);
  decision.charge(budget);
  return reason.value_or(Reason::kSearchBound);
}

}  // namespace mgpu::extender
