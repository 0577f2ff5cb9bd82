#include "extender/requeue/requeue_tracker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

void RequeueTracker::on_rejected(const PodUid& uid, std::uint64_t releases, Instant now) {
  remember({.uid = uid, .count = releases, .rejected_at = now});
}

void RequeueTracker::on_other_cards_needed(const PodUid& uid, std::uint64_t card_changes,
                                           Instant now) {
  remember({.uid = uid, .count = card_changes, .rejected_at = now, .needs_other_cards = true});
}

bool RequeueTracker::on_rejected_in_part(const PodUid& uid, std::uint64_t releases, Instant now) {
  if (!urgent_requeue_counted_) {
    const Instant until = std::max(urgent_until_, now) + kUrgentRequeueEvery;
    if (until - now > kUrgentRequeuesMax * kUrgentRequeueEvery) return false;
    urgent_until_ = until;
    urgent_requeue_counted_ = true;
  }
  add({.uid = uid, .count = releases, .rejected_at = now, .stranded_since = now, .urgent = true});
  return true;
}

void RequeueTracker::on_found() {
  urgent_until_ -= kUrgentRequeueEvery;
}

void RequeueTracker::on_filter(const PodUid& uid, Instant now) {
  last_filter_ = now;
  on_settled(uid);
}

void RequeueTracker::on_settled(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  erase(found->second->stranded_since ? stranded_ : waiting_, found->second);
}

void RequeueTracker::observe(std::uint64_t releases, std::uint64_t card_changes, Instant now) {
  drop_old(waiting_, now);
  drop_old(stranded_, now);
  if (releases == releases_ && card_changes == card_changes_) return;
  releases_ = releases;
  card_changes_ = card_changes;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto entry = at++;
    if (entry->count == counted_for(*entry)) continue;
    entry->stranded_since = now;
    stranded_.splice(stranded_.end(), waiting_, entry);
  }
}

std::optional<Instant> RequeueTracker::due() const {
  if (sent_ || stranded_.empty()) return std::nullopt;
  if (urgent_ > 0) return not_before_.value_or(Instant::min());
  const Instant since = *stranded_.front().stranded_since;
  Instant due = since + kRequeueDelay;
  if (last_filter_) due = std::max(due, *last_filter_ + kRequeueQuiet);
  due = std::min(due, since + kRequeueDelayMax);
  return not_before_ ? std::max(due, *not_before_) : due;
}

void RequeueTracker::sent(Instant now) {
  MGPU_CHECK(!sent_, "one requeue at a time");
  sent_ = now;
  urgent_requeue_counted_ = false;
  not_before_ = now + kRequeueInterval;
}

void RequeueTracker::succeeded() {
  MGPU_CHECK(sent_, "a requeue that was sent succeeds");
  // Pods stranded since then may have been filtered before their release, because of this requeue.
  while (!stranded_.empty() && *stranded_.front().stranded_since < *sent_) drop_front(stranded_);
  sent_.reset();
}

void RequeueTracker::failed(Instant retry_at) {
  MGPU_CHECK(sent_ && not_before_, "a requeue that was sent fails");
  not_before_ = std::max(*not_before_, retry_at);
  sent_.reset();
}

std::uint64_t RequeueTracker::counted_for(const Entry& entry) const {
  return entry.needs_other_cards ? card_changes_ : releases_;
}

void RequeueTracker::remember(Entry entry) {
  if (entry.count < counted_for(entry)) entry.stranded_since = entry.rejected_at;
  add(std::move(entry));
}

void RequeueTracker::add(Entry entry) {
  on_settled(entry.uid);
  // Stranded pods stay if possible: their release has come, and that of the others may not.
  if (by_uid_.size() >= kRequeuePodsMax) drop_front(waiting_.empty() ? stranded_ : waiting_);
  if (entry.urgent) ++urgent_;
  Entries& entries = entry.stranded_since ? stranded_ : waiting_;
  entries.push_back(std::move(entry));
  by_uid_[entries.back().uid] = std::prev(entries.end());
  MGPU_CHECK(by_uid_.size() == waiting_.size() + stranded_.size(), "each pod is in one list");
}

void RequeueTracker::erase(Entries& entries, Entries::iterator entry) {
  MGPU_CHECK(!entry->urgent || urgent_ > 0, "an urgent pod was counted");
  if (entry->urgent) --urgent_;
  by_uid_.erase(entry->uid);
  entries.erase(entry);
  MGPU_CHECK(by_uid_.size() == waiting_.size() + stranded_.size(), "each pod is in one list");
}

void RequeueTracker::drop_front(Entries& entries) {
  erase(entries, entries.begin());
}

void RequeueTracker::drop_old(Entries& entries, Instant now) {
  while (!entries.empty() && entries.front().rejected_at + kRequeueRememberedFor <= now)
    drop_front(entries);
}

}  // namespace mgpu::extender
