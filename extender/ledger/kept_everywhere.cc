#include "extender/ledger/kept_everywhere.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {
namespace {

// With more pods than that, counting all of them after each change would take most of a test's
// time.
constexpr std::size_t kPodsCheckedMax = 64;

}  // namespace

bool KeptEverywhere::is_consistent() const {
  Share sum;
  Share begun_sum;
  std::map<std::string, std::pair<Share, std::size_t>> groups;
  for (const auto& [uid, kept] : kept_) {
    if (kept.group.empty()) {
      sum += kept.most;
      continue;
    }
    auto& [of_group, pods] = groups[kept.group];
    of_group += kept.most;
    ++pods;
    const auto known = groups_.find(kept.group);
    if (known != groups_.end() && known->second.begun) begun_sum += kept.most;
  }
  const auto same = [](const auto& known, const auto& counted) {
    return known.first == counted.first && known.second.sum == counted.second.first &&
           known.second.pods == counted.second.second;
  };
  return sum == sum_ && begun_sum == begun_sum_ && std::ranges::equal(groups_, groups, same);
}

void KeptEverywhere::check() const {
  MGPU_DEBUG_CHECK(kept_.size() > kPodsCheckedMax || is_consistent(),
                   "what is kept everywhere is the sum of what is kept for the pods");
}

void KeptEverywhere::keep(const PodUid& uid, const Share& most, Instant until,
                          const std::string& group) {
  end(uid);
  if (!group.empty() && kept_.size() >= kNominationsMax) return;
  kept_[uid] = {most, until, group};
  first_end_ = std::min(first_end_, until);
  if (group.empty()) {
    sum_ += most;
    return check();
  }
  Group& of_group = groups_[group];
  of_group.sum += most;
  ++of_group.pods;
  if (of_group.begun) begun_sum_ += most;
  check();
}

void KeptEverywhere::begin(const std::string& group) {
  const auto of_group = groups_.find(group);
  if (of_group == groups_.end() || std::exchange(of_group->second.begun, true)) return;
  begun_sum_ += of_group->second.sum;
  check();
}

void KeptEverywhere::end(const PodUid& uid) {
  const auto at = kept_.find(uid);
  if (at == kept_.end()) return;
  const Kept ended = at->second;
  kept_.erase(at);
  if (ended.group.empty()) {
    sum_ -= ended.most;
    ++releases_;
    return check();
  }
  const auto of_group = groups_.find(ended.group);
  MGPU_DEBUG_CHECK(of_group != groups_.end() && of_group->second.pods > 0,
                   "what is kept for a group is counted in it");
  of_group->second.sum -= ended.most;
  if (of_group->second.begun) {
    begun_sum_ -= ended.most;
    ++releases_;
  }
  if (--of_group->second.pods == 0) groups_.erase(of_group);
  check();
}

void KeptEverywhere::end_for_group(const PodUid& uid) {
  const auto at = kept_.find(uid);
  if (at != kept_.end() && !at->second.group.empty()) end(uid);
}

void KeptEverywhere::expire(Instant now) {
  MGPU_DEBUG_CHECK(
      now >= first_end_ || kept_.size() > kPodsCheckedMax ||
          std::ranges::none_of(kept_, [now](const auto& one) { return one.second.until <= now; }),
      "nothing ends before the first end that was noted");
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
