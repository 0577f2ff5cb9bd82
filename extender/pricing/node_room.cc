#include "extender/pricing/node_room.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "extender/placement/fit.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {
namespace {

// The prices are those of up to 100 % of a card. Of a card whose compute is oversubscribed more may
// be free, and without pods it counts as a free card, otherwise as 99 %.
std::uint8_t percent_of(const Share& free, const Share& capacity) {
  if (free.core == capacity.core) return 100;
  return static_cast<std::uint8_t>(std::min<std::int64_t>(free.core.value(), 99));
}

// More than any node has, so that it is enough for every class.
constexpr float kEnough = 1e5F;

Share held(std::span<const CardHold> pod, CardIndex card) {
  const auto at = std::ranges::find(pod, card, &CardHold::card);
  return at == pod.end() ? Share{} : at->share;
}

}  // namespace

KindId kind_of(const Card& card) {
  return card.kind != 0 ? card.kind : kind_id(card.model, card.capacity.memory);
}

std::uint16_t Kinds::find(KindId id) const {
  const auto at = std::ranges::find(ids_, id);
  return at == ids_.end() ? std::uint16_t{0} : static_cast<std::uint16_t>(at - ids_.begin());
}

void KindCount::add(const Node& node) {
  for (Counted& one : counted_) one.on_node = 0;
  for (const Card& card : cards_of(node)) {
    const KindId id = kind_of(card);
    auto at = std::ranges::find(counted_, id, &Counted::id);
    if (at == counted_.end()) {
      if (counted_.size() >= kCardKindsCountedMax) continue;
      at = counted_.insert(at, {{card.model, card.capacity.memory}, id});
    }
    ++at->cards;
    at->most_cards = std::max(at->most_cards, ++at->on_node);
  }
}

Kinds KindCount::kinds() const {
  std::vector<Counted> sorted = counted_;
  std::ranges::stable_sort(sorted, std::greater<>{}, &Counted::cards);
  sorted.resize(std::min(sorted.size(), kCardKindsMax));
  Kinds kinds;
  for (Counted& one : sorted) {
    kinds.kinds_.push_back(std::move(one.kind));
    kinds.ids_.push_back(one.id);
    MGPU_CHECK(one.most_cards > 0 && std::cmp_less_equal(one.most_cards, one.cards),
               "no node has more cards of a kind than all nodes");
    kinds.most_cards_.push_back(one.most_cards);
  }
  return kinds;
}

NodeRoom room_after(const Node& node, const Kinds& kinds, const NodeResources& resources,
                    std::span<const CardHold> pod) {
  NodeRoom room;
  room.cores = room.gib = kEnough;
  if (!node.allocatable.zero()) {
    const NodeResources left = room_in(node.resources_left(), resources);
    room.cores = static_cast<float>(left.cpu.value()) / kMilliPerCore;
    room.gib = static_cast<float>(left.memory.value()) / kMiBPerGiB;
  }
  KindId last = 0;
  std::uint16_t kind = 0;
  for (const Card& card : cards_of(node)) {
    if (!card.usable()) continue;
    const Share free = room_in(card.capacity, card.used + card.expected + held(pod, card.index));
    if (free.core.zero()) continue;
    const KindId id = kind_of(card);
    if (id != last) kind = kinds.find(id);
    last = id;
    const auto memory = static_cast<float>(free.memory.value());
    const auto capacity = static_cast<float>(card.capacity.memory.value());
    MGPU_CHECK(room.count < room.cards.size(), "no node has more cards than are counted");
    room.cards[room.count++] = {kind, percent_of(free, card.capacity),
                                capacity == 0 ? 1 : memory / capacity};
    MGPU_CHECK(memory >= 0 && memory <= capacity, "no more of a card is free than all of it");
  }
  MGPU_CHECK(room.cores >= 0 && room.gib >= 0, "what is free on a node is not negative");
  return room;
}

}  // namespace mgpu::extender
