#include "extender/placement/holds.h"

#include <bit>
#include <map>

#include "common/check.h"

namespace mgpu::placement {

namespace {

std::map<CardIndex, ContainerSet> containers_by_card(const Placement& placement) {
  std::map<CardIndex, ContainerSet> by_card;
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    for (const CardIndex card : placement.cards_of[i]) by_card[card] |= ContainerSet{1} << i;
  }
  return by_card;
}

}  // namespace

// One pass in spec order: `running` is what has started and stays, and an init container runs
// beside exactly that.
Share hold_on(const Share& capacity, std::span<const ContainerRequest> containers,
              ContainerSet on) {
  Share running;
  Share peak;
  for (; on != 0; on &= on - 1) {
    const ContainerRequest& container = containers[static_cast<std::size_t>(std::countr_zero(on))];
    const Share share = running + container.on(capacity);
    if (container.kind == ContainerKind::kInit) {
      peak = max_of(peak, share);
    } else {
      running = share;
    }
  }
  return max_of(peak, running);
}

std::vector<CardHold> holds(const Node& node, const GpuRequest& request,
                            const Placement& placement) {
  MGPU_CHECK(placement.cards_of.size() == request.containers.size(),
             "a placement of another request");
  std::vector<CardHold> held;
  for (const auto& [index, containers] : containers_by_card(placement)) {
    const Card* card = node.find(index);
    const Share capacity = card != nullptr ? card->capacity : Share{kWholeCard, MiB{}};
    held.push_back({index, hold_on(capacity, request.containers, containers)});
  }
  return held;
}

}  // namespace mgpu::placement
