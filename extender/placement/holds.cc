#include "extender/placement/holds.h"

#include <map>

#include "common/base/check.h"

namespace mgpu::extender {

std::vector<CardHold> holds(const Node& node, const GpuRequest& request,
                            const Placement& placement) {
  MGPU_CHECK(placement.cards_of.size() == request.containers.size(),
             "a placement of another request");
  std::map<CardIndex, ContainerSet> by_card;
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i)
    for (const CardIndex card : placement.cards_of[i]) by_card[card] |= ContainerSet{1} << i;
  std::vector<CardHold> held;
  for (const auto& [index, containers] : by_card) {
    const Card* card = node.find(index);
    const Share capacity = card != nullptr ? card->capacity : Share{kWholeCard, MiB{}};
    held.push_back({index, hold_on(capacity, request.containers, containers)});
    MGPU_CHECK(!held.back().share.zero(), "a container holds something of each of its cards");
  }
  return held;
}

}  // namespace mgpu::extender
