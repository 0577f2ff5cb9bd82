#include "extender/placement/shape.h"

#include <algorithm>
#include <bit>

namespace mgpu::extender {
namespace {

bool same_card(const Card& a, const Card& b) {
  return a.used == b.used && a.expected == b.expected && a.capacity == b.capacity &&
         a.kind == b.kind && a.instance == b.instance && a.healthy == b.healthy &&
         a.uncertain == b.uncertain && a.cordoned == b.cordoned && a.model == b.model;
}

bool same_links(const Node& a, const Node& b) {
  return a.links == b.links || (a.links != nullptr && b.links != nullptr && *a.links == *b.links);
}

}  // namespace

bool same_shape(const Node& a, const Node& b) {
  return a.resources_used == b.resources_used && a.allocatable == b.allocatable &&
         std::ranges::equal(a.cards, b.cards, same_card) && same_links(a, b) &&
         a.profile.minimum == b.profile.minimum &&
         a.profile.parts_of_one_card == b.profile.parts_of_one_card &&
         a.node_policy == b.node_policy && a.card_policy == b.card_policy;
}

std::uint64_t shape_hash(const Node& node) {
  std::uint64_t hash = node.cards.size();
  const auto add = [&hash](auto number) {
    hash = (std::rotl(hash, 5) ^ static_cast<std::uint64_t>(number)) * 0x9E37'79B9'7F4A'7C15;
  };
  add(node.resources_used.cpu.value());
  add(node.resources_used.memory.value());
  for (const Card& card : node.cards) {
    add(card.kind);
    add(card.used.core.value());
    add(card.used.memory.value());
    add(card.expected.core.value());
    add(card.expected.memory.value());
    add(card.usable());
  }
  return hash ^ (hash >> 32);
}

}  // namespace mgpu::extender
