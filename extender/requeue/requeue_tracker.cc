#include "extender/requeue/requeue_tracker.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

void RequeueTracker::refused(const PodUid& uid, std::uint64_t releases, Instant now) {
  gone(uid);
  if (by_uid_.size() >= kRequeueListMax) drop_front(waiting_.empty() ? owed_ : waiting_);
  const bool overtaken = releases < releases_;
  Entries& entries = overtaken ? owed_ : waiting_;
  entries.push_back({uid, releases, now, overtaken ? std::optional(now) : std::nullopt});
  by_uid_[uid] = std::prev(entries.end());
}

void RequeueTracker::asked(const PodUid& uid, Instant now) {
  last_asked_ = now;
  gone(uid);
}

void RequeueTracker::gone(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  (found->second->owed_since ? owed_ : waiting_).erase(found->second);
  by_uid_.erase(found);
}

void RequeueTracker::observe(std::uint64_t releases, Instant now) {
  drop_outdated(waiting_, now);
  drop_outdated(owed_, now);
  if (releases == releases_) return;
  releases_ = releases;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto entry = at++;
    if (entry->releases == releases) continue;
    entry->owed_since = now;
    owed_.splice(owed_.end(), waiting_, entry);
  }
}

std::optional<Instant> RequeueTracker::due() const {
  if (sent_ || owed_.empty()) return std::nullopt;
  const Instant since = *owed_.front().owed_since;
  Instant due = since + kRequeueDelay;
  if (last_asked_) due = std::max(due, *last_asked_ + kRequeueQuiet);
  due = std::min(due, since + kRequeueDelayMax);
  return not_before_ ? std::max(due, *not_before_) : due;
}

void RequeueTracker::sent(Instant now) {
  MGPU_CHECK(!sent_, "one wake at a time");
  sent_ = now;
  not_before_ = now + kRequeueInterval;
}

void RequeueTracker::woken() {
  // Who is owed since then may have been asked about, on the old state, because of this very wake.
  while (!owed_.empty() && *owed_.front().owed_since < *sent_) drop_front(owed_);
  sent_.reset();
}

void RequeueTracker::failed(Instant retry_at) {
  not_before_ = std::max(*not_before_, retry_at);
  sent_.reset();
}

void RequeueTracker::drop_front(Entries& entries) {
  by_uid_.erase(entries.front().uid);
  entries.pop_front();
}

void RequeueTracker::drop_outdated(Entries& entries, Instant now) {
  while (!entries.empty() && entries.front().refused_at + kRequeueRememberedFor <= now)
    drop_front(entries);
}

}  // namespace mgpu::extender
