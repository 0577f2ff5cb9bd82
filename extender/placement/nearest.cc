#include "extender/placement/nearest.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "extender/placement/fit.h"

namespace mgpu::extender {
namespace {

constexpr std::int64_t kThousandths = 1'000;

struct CardShortfall {
  Share share;
  std::int64_t size = 0;
};

Share shortfall_on(const Card& card, const ContainerRequest& container) {
  const Share asked = container.on(card.capacity);
  const Share room = card.room();
  return {asked.core.minus_saturating(room.core), asked.memory.minus_saturating(room.memory)};
}

// What each usable card lacks for the container.
std::vector<CardShortfall> shortfalls(const Node& node, const CardSelector& selector,
                                      const ContainerRequest& container) {
  std::vector<CardShortfall> all;
  const CardSet usable = usable_cards(node, selector);
  const auto cards = cards_of(node);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if ((usable >> i & 1) == 0) continue;
    const Share lacks = shortfall_on(cards[i], container);
    all.push_back({lacks, size_of({0, lacks}, cards[i].capacity)});
  }
  return all;
}

// The least that all of the container's cards together lack; nothing if there are too few.
std::optional<Share> least_shortfall(const Node& node, const CardSelector& selector,
                                     const ContainerRequest& container) {
  auto all = shortfalls(node, selector, container);
  const auto wanted = static_cast<std::size_t>(container.cards);
  if (all.size() < wanted) return std::nullopt;
  std::ranges::stable_sort(all, {}, &CardShortfall::size);
  Share most;
  for (std::size_t i = 0; i < wanted; ++i) {
    most.core = std::max(most.core, all[i].share.core);
    most.memory = std::max(most.memory, all[i].share.memory);
  }
  return most;
}

}  // namespace

void MostRoom::add(const Node& node, const CardSelector& selector,
                   const ContainerRequest& container) {
  std::int32_t fitting = 0;
  for (const Card& card : cards_of(node)) {
    if (!matches(selector, card)) continue;
    if (card.capacity.memory > largest.memory) largest = card.capacity;
    if (!card.usable()) continue;
    const Share asked = container.on(card.capacity);
    const Share room = card.room();
    if (asked.fits_in(room)) ++fitting;
    const std::int64_t size = size_of({0, shortfall_on(card, container)}, card.capacity);
    if (free && size >= lacks) continue;
    free = room;
    lacks = size;
  }
  cards = std::max(cards, fitting);
}

std::int64_t size_of(const Shortfall& shortfall, const Share& capacity) {
  const auto part = [](std::int64_t lacks, std::int64_t whole) {
    if (whole <= 0 || lacks >= whole) return kThousandths;
    return static_cast<std::int64_t>(static_cast<double>(lacks) * kThousandths /
                                     static_cast<double>(whole));
  };
  return part(shortfall.share.core.value(), capacity.core.value()) +
         (shortfall.share.memory.zero()
              ? 0
              : part(shortfall.share.memory.value(), capacity.memory.value()));
}

std::optional<Shortfall> shortfall_of(const Node& node, const GpuRequest& request,
                                      const Share& least, SearchBudget& budget) {
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const ContainerRequest& container = request.containers[i];
    if (fits_alone(node, request.selector, container)) continue;
    if (container.whole) return std::nullopt;
    budget.spend(linear_steps(node, request));
    const auto lacks = least_shortfall(node, request.selector, container);
    if (!lacks || !lacks->fits_in(container.per_card)) return std::nullopt;
    GpuRequest smaller = request;
    Share& asked = smaller.containers[i].per_card;
    asked = room_in(asked, *lacks);
    if (!least.fits_in(asked) || why_not(node, smaller, budget)) return std::nullopt;
    return Shortfall{i, *lacks};
  }
  return std::nullopt;
}

}  // namespace mgpu::extender
