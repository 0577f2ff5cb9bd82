#include "extender/requeue/asked_nodes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

std::uint64_t hash_of(std::string_view name) {
  return std::hash<std::string_view>()(name);
}

// Returns whether a name was new.
bool add_all(std::span<const std::string_view> names, std::vector<std::uint64_t>& hashes) {
  const std::size_t before = hashes.size();
  for (const std::string_view name : names) hashes.push_back(hash_of(name));
  std::ranges::sort(hashes);
  const auto repeated = std::ranges::unique(hashes);
  hashes.erase(repeated.begin(), repeated.end());
  return hashes.size() > before;
}

}  // namespace

bool AskedNodes::rejected(const PodUid& uid, std::span<const std::string_view> asked,
                          std::span<const std::string> fitting, Instant now) {
  Entry& entry = entry_of(uid, now);
  if (now - entry.since >= kSearchAgainAfter) {
    entry.since = now;
    entry.asked.clear();
  }
  entry.waits = false;
  if (entry.asked.size() + asked.size() > kAskedNamesMax) return false;
  const bool any_new = add_all(asked, entry.asked);
  const auto is_unasked = [&](const std::string& name) {
    return !std::ranges::binary_search(entry.asked, hash_of(name));
  };
  entry.waits =
      any_new && now - entry.since < kSearchTime && std::ranges::any_of(fitting, is_unasked);
  return entry.waits;
}

bool AskedNodes::take_wait(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  return found != by_uid_.end() && std::exchange(found->second->waits, false);
}

void AskedNodes::forget(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  entries_.erase(found->second);
  by_uid_.erase(found);
}

AskedNodes::Entry& AskedNodes::entry_of(const PodUid& uid, Instant now) {
  const auto found = by_uid_.find(uid);
  if (found != by_uid_.end()) return *found->second;
  if (entries_.size() >= kAskedPodsMax) forget(PodUid(entries_.front().uid));
  entries_.push_back({.uid = uid, .since = now, .asked = {}});
  by_uid_[uid] = std::prev(entries_.end());
  return entries_.back();
}

}  // namespace mgpu::extender
