#include "extender/ledger/kept_everywhere.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "extender/ledger/limits.h"

namespace mgpu::extender {

void KeptEverywhere::keep(const PodUid& uid, const Share& most, Instant until,
                          const std::string& group) {
  end(uid);
  if (!group.empty() && kept_.size() >= kNominationsMax) return;
  kept_[uid] = {most, until, group};
  first_end_ = std::min(first_end_, until);
  if (group.empty()) {
    sum_ += most;
    return;
  }
  Group& of_group = groups_[group];
  of_group.sum += most;
  ++of_group.pods;
  if (of_group.begun) begun_sum_ += most;
}

void KeptEverywhere::begin(const std::string& group) {
  const auto of_group = groups_.find(group);
  if (of_group == groups_.end() || std::exchange(of_group->second.begun, true)) return;
  begun_sum_ += of_group->second.sum;
}

void KeptEverywhere::end(const PodUid& uid) {
  const auto at = kept_.find(uid);
  if (at == kept_.end()) return;
  const Kept ended = at->second;
  kept_.erase(at);
  if (ended.group.empty()) {
    sum_ -= ended.most;
    ++releases_;
    return;
  }
  const auto of_group = groups_.find(ended.group);
  of_group->second.sum -= ended.most;
  if (of_group->second.begun) {
    begun_sum_ -= ended.most;
    ++releases_;
  }
  if (--of_group->second.pods == 0) groups_.erase(of_group);
}

void KeptEverywhere::end_for_group(const PodUid& uid) {
  const auto at = kept_.find(uid);
  if (at != kept_.end() && !at->second.group.empty()) end(uid);
}

void KeptEverywhere::expire(Instant now) {
  if (now < first_end_) return;
  first_end_ = Instant::max();
  std::vector<PodUid> ended;
  for (const auto& [uid, kept] : kept_) {
    if (kept.until <= now) {
      ended.push_back(uid);
    } else {
      first_end_ = std::min(first_end_, kept.until);
    }
  }
  for (const PodUid& uid : ended) end(uid);
}

Share KeptEverywhere::kept_from(const PodUid& uid, const std::string& group) const {
  if (kept_.empty() || uid.empty()) return {};
  Share kept = sum_;
  const auto own = kept_.find(uid);
  if (own != kept_.end() && own->second.group.empty()) kept -= own->second.most;
  const auto of_group = groups_.find(group);
  const bool begun = of_group != groups_.end() && of_group->second.begun;
  return begun ? kept : kept + begun_sum_;
}

}  // namespace mgpu::extender
