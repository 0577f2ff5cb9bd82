#include "extender/requeue/requeue_tracker.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace mgpu::extender {

void RequeueTracker::on_rejected(const PodUid& uid, std::uint64_t releases, Instant now) {
  on_settled(uid);
  if (by_uid_.size() >= kRequeuePodsMax) drop_front(waiting_.empty() ? stranded_ : waiting_);
  const bool stranded = releases < releases_;
  Entries& entries = stranded ? stranded_ : waiting_;
  entries.push_back({uid, releases, now, stranded ? std::optional(now) : std::nullopt});
  by_uid_[uid] = std::prev(entries.end());
}

void RequeueTracker::on_filter(const PodUid& uid, Instant now) {
  last_filter_ = now;
  on_settled(uid);
}

void RequeueTracker::on_settled(const PodUid& uid) {
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  (found->second->stranded_since ? stranded_ : waiting_).erase(found->second);
  by_uid_.erase(found);
}

void RequeueTracker::observe(std::uint64_t releases, Instant now) {
  drop_old(waiting_, now);
  drop_old(stranded_, now);
  if (releases == releases_) return;
  releases_ = releases;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto entry = at++;
    if (entry->releases == releases) continue;
    entry->stranded_since = now;
    stranded_.splice(stranded_.end(), waiting_, entry);
  }
}

std::optional<Instant> RequeueTracker::due() const {
  if (sent_ || stranded_.empty()) return std::nullopt;
  const Instant since = *stranded_.front().stranded_since;
  Instant due = since + kRequeueDelay;
  if (last_filter_) due = std::max(due, *last_filter_ + kRequeueQuiet);
  due = std::min(due, since + kRequeueDelayMax);
  return not_before_ ? std::max(due, *not_before_) : due;
}

void RequeueTracker::sent(Instant now) {
  MGPU_CHECK(!sent_, "one requeue at a time");
  sent_ = now;
  not_before_ = now + kRequeueInterval;
}

void RequeueTracker::succeeded() {
  // Pods stranded since then may have been filtered before their release, because of this requeue.
  while (!stranded_.empty() && *stranded_.front().stranded_since < *sent_) drop_front(stranded_);
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

void RequeueTracker::drop_old(Entries& entries, Instant now) {
  while (!entries.empty() && entries.front().rejected_at + kRequeueRememberedFor <= now)
    drop_front(entries);
}

}  // namespace mgpu::extender
