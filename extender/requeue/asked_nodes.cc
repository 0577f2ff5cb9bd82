#include "extender/requeue/asked_nodes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

#include "common/base/check.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

std::uint64_t hash_of(std::string_view name) {
  return std::hash<std::string_view>()(name);
}

// The same in any order.
std::uint64_t hash_of(std::span<const std::string> names) {
  return std::transform_reduce(names.begin(), names.end(), std::uint64_t{0}, std::plus<>(),
                               [](const std::string& name) { return hash_of(name); });
}

// Returns whether a name was new.
bool add_all(std::span<const std::string_view> names, std::vector<std::uint64_t>& hashes) {
  const std::size_t before = hashes.size();
  for (const std::string_view name : names) hashes.push_back(hash_of(name));
  std::ranges::sort(hashes);
  const auto repeated = std::ranges::unique(hashes);
  hashes.erase(repeated.begin(), repeated.end());
  MGPU_CHECK(hashes.size() >= before, "a name that was asked stays asked");
  return hashes.size() > before;
}

}  // namespace

bool AskedNodes::rejected(ReplicaGroup id, const PodUid& uid,
                          std::span<const std::string_view> asked,
                          std::span<const std::string> fitting, Instant now) {
  Group* group = find_or_add(id, now);
  if (group == nullptr) return false;
  group->seen = now;
  const std::uint64_t fitting_now = hash_of(fitting);
  if (group->ended) {
    if (group->fitting == fitting_now || now - group->since < kSearchAgainAfter) return false;
    begin(id, *group, now);
  }
  group->fitting = fitting_now;
  const bool goes_on = now - group->since < kSearchTime &&
                       group->asked.size() + asked.size() <= kAskedNamesMax &&
                       add_all(asked, group->asked);
  if (!goes_on) {
    end(id);
    return false;
  }
  const auto is_unasked = [&](const std::string& name) {
    return !std::ranges::binary_search(group->asked, hash_of(name));
  };
  if (std::ranges::none_of(fitting, is_unasked)) return false;
  if (waiting_.size() >= kWaitsKeptMax) waiting_.pop_front();
  waiting_.push_back(uid);
  MGPU_CHECK(waiting_.size() <= kWaitsKeptMax, "the pods that wait are bounded");
  return true;
}

bool AskedNodes::take_wait(const PodUid& uid) {
  return std::erase(waiting_, uid) > 0;
}

bool AskedNodes::forget(ReplicaGroup id) {
  groups_.erase(id);
  return std::erase(searching_, id) > 0;
}

AskedNodes::Group* AskedNodes::find_or_add(ReplicaGroup id, Instant now) {
  const auto found = groups_.find(id);
  if (found != groups_.end()) return &found->second;
  if (groups_.size() >= kSearchedGroupsMax) drop_old(now);
  if (groups_.size() >= kSearchedGroupsMax) return nullptr;
  Group& group = groups_[id];
  begin(id, group, now);
  return &group;
}

void AskedNodes::begin(ReplicaGroup id, Group& group, Instant now) {
  if (searching_.size() >= kSearchesMax) end(searching_.front());
  searching_.push_back(id);
  MGPU_CHECK(searching_.size() <= kSearchesMax && groups_.size() <= kSearchedGroupsMax,
             "searches and their groups are bounded");
  group = {.since = now, .seen = now, .asked = {}};
}

void AskedNodes::end(ReplicaGroup id) {
  std::erase(searching_, id);
  Group& group = groups_.at(id);
  group.ended = true;
  std::vector<std::uint64_t>().swap(group.asked);
}

// Those that kube-scheduler has not tried for longer than it leaves any pod.
void AskedNodes::drop_old(Instant now) {
  if (now - dropped_old_ < kSearchAgainAfter) return;
  dropped_old_ = now;
  for (auto at = groups_.begin(); at != groups_.end();) {
    const bool old = now - at->second.seen >= kRequeueRememberedFor;
    if (old) std::erase(searching_, at->first);
    at = old ? groups_.erase(at) : std::next(at);
  }
}

}  // namespace mgpu::extender
