#include "extender/spared_victims.h"

#include <algorithm>

namespace mgpu::extender {

Spared SparedVictims::at(Instant now, bool unknown_groups) {
  std::erase_if(pods_, [now](const auto& one) { return one.second <= now; });
  std::erase_if(groups_, [now](const auto& one) { return one.second.until <= now; });
  Spared spared{.pods = {}, .groups = {}, .other_groups = unknown_groups};
  for (const auto& [uid, until] : pods_) spared.pods.insert(uid);
  for (const auto& [name, group] : groups_) spared.groups[name] = group.evicted_together;
  return spared;
}

void SparedVictims::refused(const std::optional<PodUid>& victim, Instant now) {
  const Instant until = now + kPreemptRefusedPause;
  if (victim && pods_.size() < kPreemptSparedMax) pods_[*victim] = until;
  if (++refusals_ < kPreemptRefusalsMax) return;
  refusals_ = 0;
  paused_until_ = until;
}

std::optional<bool> SparedVictims::evicted_together(const std::string& group) const {
  const auto known = groups_.find(group);
  return known == groups_.end() ? std::nullopt : std::optional(known->second.evicted_together);
}

void SparedVictims::add_group(const std::string& group, bool evicted_together, Instant now) {
  const auto until = [](const auto& known) { return known.second.until; };
  if (groups_.size() >= kPreemptGroupsMax)
    groups_.erase(std::ranges::min_element(groups_, {}, until));
  groups_[group] = {evicted_together, now + kPreemptGroupLife};
}

}  // namespace mgpu::extender
