#include "plugin/monitor/waiting_shares.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/contract/gpu_request.h"

namespace mgpu::plugin {
namespace {

using Started = std::set<std::pair<PodUid, std::string>>;         // containers
using HeldCore = std::map<std::pair<PodUid, CardUuid>, Percent>;  // of a card

bool has_started(const kube::Pod& pod, const std::string& container) {
  return std::ranges::any_of(pod.container_statuses, [&](const kube::ContainerStatus& status) {
    return status.name == container && !status.id.empty();
  });
}

// One pod and its request.
class WaitingPod {
 public:
  WaitingPod(const kube::Pod& pod, GpuRequest request, Placement placement)
      : pod_(pod), request_(std::move(request)), placement_(std::move(placement)) {}

  void add_card(const CardFacts& card, const Started& recorded, Percent held,
                std::vector<HeldShare>& shares) const {
    const Share capacity{kWholeCard, card.memory};
    const ContainerSet all = on(card.index);
    if (all == 0) return;
    Percent room = hold_on(capacity, request_.containers, all).core.minus_saturating(held);
    for (const bool init : {false, true}) {
      for (std::size_t i = 0; i < request_.containers.size(); ++i) {
        const ContainerRequest& one = request_.containers[i];
        const bool chosen = (all >> i & 1) != 0 && (one.kind == ContainerKind::kInit) == init;
        if (!chosen || recorded.contains({pod_.uid(), one.name})) continue;
        const bool started = has_started(pod_, one.name);
        const Percent core = std::min(one.on(capacity).core, room);
        if (core <= Percent(0) || (init && started)) continue;
        room -= core;
        HeldShare share{
            Owner{pod_.ref(), pod_.uid(), one.name, one.kind, static_cast<std::int32_t>(i)},
            {card.index, card.uuid, {core, one.on(capacity).memory}}};
        share.pod_owner = owner_of(pod_);
        if (!started) share.sm_percent = 0;
        if (!started) share.memory = MiB(0);
        shares.push_back(std::move(share));
      }
    }
  }

 private:
  // The containers with this card.
  ContainerSet on(CardIndex card) const {
    ContainerSet found = 0;
    for (std::size_t i = 0; i < placement_.cards_of.size(); ++i) {
      if (std::ranges::binary_search(placement_.cards_of[i], card)) found |= ContainerSet{1} << i;
    }
    return found;
  }

  const kube::Pod& pod_;
  const GpuRequest request_;
  const Placement placement_;
};

}  // namespace

std::vector<HeldShare> waiting_shares(const std::vector<kube::Pod>& pods,
                                      const std::vector<ContainerUse>& uses,
                                      const std::vector<HeldShare>& held,
                                      const std::vector<CardFacts>& cards,
                                      const Contract& contract) {
  Started recorded;
  for (const ContainerUse& use : uses) recorded.insert({use.owner.uid, use.owner.container});
  HeldCore held_core;
  for (const HeldShare& share : held) {
    held_core[{share.container.uid, share.grant.uuid}] += share.grant.share.core;
  }
  std::vector<HeldShare> shares;
  for (const kube::Pod& pod : pods) {
    if (pod.finished()) continue;
    auto request = read_bound_containers(pod, contract);
    if (!request || request->empty()) continue;
    auto placement = read_placement(pod, *request, contract);
    if (!placement) continue;
    const WaitingPod waiting(pod, *std::move(request), *std::move(placement));
    for (const CardFacts& card : cards) {
      waiting.add_card(card, recorded, held_core[{pod.uid(), card.uuid}], shares);
    }
  }
  return shares;
}

}  // namespace mgpu::plugin
