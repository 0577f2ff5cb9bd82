#include "extender/pricing/node_room.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "extender/placement/fit.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {
namespace {

constexpr float kMilliPerCore = 1000;
constexpr float kMiBPerGiB = 1024;
// More than any node has, so that no class ever lacks it.
constexpr float kPlenty = 1e5F;

Share held(std::span<const CardHold> pod, CardIndex card) {
  const auto at = std::ranges::find(pod, card, &CardHold::card);
  return at == pod.end() ? Share{} : at->share;
}

void set_host(NodeRoom& room, const Node& node, const NodeResources& host) {
  if (node.allocatable.zero()) {
    room.cores = room.gib = kPlenty;
    return;
  }
  const NodeResources left = room_in(node.resources_left(), host);
  room.cores = static_cast<float>(left.cpu.value()) / kMilliPerCore;
  room.gib = static_cast<float>(left.memory.value()) / kMiBPerGiB;
}

float part(MiB free, MiB capacity) {
  if (capacity.zero()) return 1;
  return static_cast<float>(free.value()) / static_cast<float>(capacity.value());
}

}  // namespace

KindId kind_of(const Card& card) {
  return card.kind != 0 ? card.kind : kind_id(card.model, card.capacity.memory);
}

Kinds::Kinds(std::vector<CardKind> kinds) {
  kinds_.push_back({});
  ids_.push_back(0);
  for (CardKind& kind : kinds) {
    if (kinds_.size() > kCardKindsMax) break;
    ids_.push_back(kind.id());
    kinds_.push_back(std::move(kind));
  }
}

std::uint16_t Kinds::find(KindId id) const {
  const auto at = std::ranges::find(ids_, id);
  return at == ids_.end() ? std::uint16_t{0} : static_cast<std::uint16_t>(at - ids_.begin());
}

void KindCount::add(const Node& node) {
  for (const Card& card : cards_of(node)) {
    const KindId id = kind_of(card);
    const auto at = std::ranges::find(counted_, id, &Counted::id);
    if (at != counted_.end())
      ++at->cards;
    else if (counted_.size() < kCardKindsCountedMax)
      counted_.push_back({{card.model, card.capacity.memory}, id, 1});
  }
}

Kinds KindCount::kinds() const {
  std::vector<Counted> sorted = counted_;
  std::ranges::stable_sort(sorted, std::greater<>{}, &Counted::cards);
  std::vector<CardKind> kinds;
  for (Counted& one : sorted) kinds.push_back(std::move(one.kind));
  return Kinds(std::move(kinds));
}

NodeRoom room_after(const Node& node, const Kinds& kinds, const NodeResources& host,
                    std::span<const CardHold> pod) {
  NodeRoom room;
  set_host(room, node, host);
  KindId last = 0;
  std::uint16_t kind = 0;
  for (const Card& card : cards_of(node)) {
    if (!card.usable()) continue;
    const Share free = room_in(card.capacity, card.used + card.expected + held(pod, card.index));
    if (free.core.zero()) continue;
    const KindId id = kind_of(card);
    if (id != last) kind = kinds.find(id);
    last = id;
    room.cards[room.count++] = {kind, static_cast<std::uint8_t>(free.core.value()),
                                part(free.memory, card.capacity.memory)};
  }
  return room;
}

}  // namespace mgpu::extender
