#include "plugin/monitor/held_shares.h"

#include <algorithm>

namespace mgpu::plugin {
namespace {

// Of each pod the position of the last container that has started.
using LastPositions = std::map<PodUid, std::int32_t>;

bool has_ended(const ContainerUse& use, const ReportedPods& reported, const LastPositions& last) {
  if (use.processes > 0) return false;
  const Owner& container = use.owner;
  if (container.kind == ContainerKind::kInit && last.at(container.uid) > container.position) {
    return true;
  }
  const auto pod = reported.pods.find(container.uid);
  return pod == reported.pods.end() ? reported.listed : pod->second.finished;
}

HeldShare held_share(const ContainerUse& use, const ReadCards& cards) {
  HeldShare share{use.owner, use.grant};
  const auto card = cards.find(use.grant.uuid);
  if (card == cards.end()) return share;
  share.sm_percent = use.sm_percent;
  const bool is_idle = card->second == KnownIdle::kWithoutValue ||
                       (card->second == KnownIdle::kWithoutProcess && use.processes == 0);
  if (!share.sm_percent && is_idle) share.sm_percent = 0;
  // Processes of which the driver reports no memory count as 0 MiB in a ContainerUse.
  if (use.processes == 0 || !use.memory_used.zero()) share.memory = use.memory_used;
  return share;
}

}  // namespace

std::vector<HeldShare> held_shares(const std::vector<ContainerUse>& uses, const ReadCards& cards,
                                   const ReportedPods& reported) {
  LastPositions last;
  for (const ContainerUse& use : uses) {
    std::int32_t& position = last.try_emplace(use.owner.uid, use.owner.position).first->second;
    position = std::max(position, use.owner.position);
  }
  std::vector<HeldShare> held;
  for (const ContainerUse& use : uses) {
    if (has_ended(use, reported, last)) continue;
    held.push_back(held_share(use, cards));
    const auto pod = reported.pods.find(use.owner.uid);
    if (pod != reported.pods.end()) held.back().pod_owner = pod->second.owner;
  }
  return held;
}

}  // namespace mgpu::plugin
