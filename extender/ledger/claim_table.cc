#include "extender/ledger/claim_table.h"

#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {
namespace {

template <class Index>
void erase_from(Index& index, Entry& entry) {
  auto [at, end] = index.equal_range(&entry);
  // Claims of several attempts to bind one pod are equal in an index.
  while (at != end && *at != &entry) ++at;
  MGPU_CHECK(at != end, "a claim is missing in an index");
  index.erase(at);
}

bool preferred(const Entry& entry, const Entry& other) {
  if (entry.view.phase != other.view.phase) return entry.view.phase == Phase::kBound;
  return entry.id > other.id;
}

}  // namespace

Entry& ClaimTable::add(Claim claim, Phase phase, Instant touched) {
  const ClaimId id = ++last_id_;
  Entry& entry = entries_[id];
  entry.id = id;
  entry.view.claim = std::move(claim);
  entry.view.phase = phase;
  entry.touched = touched;
  by_uid_.insert(&entry);
  by_pod_.insert(&entry);
  if (phase == Phase::kAssumed) assumed_.emplace(id, &entry);
  MGPU_DEBUG_CHECK(entries_.rbegin()->first == id, "the newest claim has the greatest id");
  check_sizes();
  return entry;
}

void ClaimTable::erase(Entry& entry) {
  const ClaimId id = entry.id;
  MGPU_DEBUG_CHECK(entry.record == nullptr, "a claim is erased after it is removed from its node");
  MGPU_DEBUG_CHECK(assumed_.contains(id) == (entry.view.phase == Phase::kAssumed),
                   "the assumed claims are those in this phase");
  erase_from(by_uid_, entry);
  erase_from(by_pod_, entry);
  assumed_.erase(id);
  entries_.erase(id);
  check_sizes();
}

void ClaimTable::check_sizes() const {
  MGPU_CHECK(by_uid_.size() == entries_.size() && by_pod_.size() == entries_.size() &&
                 assumed_.size() <= entries_.size(),
             "every claim is in every index once");
}

Entry* ClaimTable::find(ClaimId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<Entry*> ClaimTable::of(const PodUid& uid) const {
  const auto [begin, end] = by_uid_.equal_range(uid);
  return {begin, end};
}

const Entry* ClaimTable::of(const PodRef& pod) const {
  const Entry* best = nullptr;
  const auto [begin, end] = by_pod_.equal_range(pod);
  for (auto at = begin; at != end; ++at)
    if (best == nullptr || preferred(**at, *best)) best = *at;
  return best;
}

}  // namespace mgpu::extender
