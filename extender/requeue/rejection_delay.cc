#include "extender/requeue/rejection_delay.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

RejectionDelay::RejectionDelay(Executor& executor)
    : executor_(executor), refilled_(executor.now()), last_release_(refilled_) {}

std::uint64_t RejectionDelay::releases() const {
  const MutexLock lock(mutex_);
  return releases_;
}

void RejectionDelay::run(const PodUid& uid, std::function<Next()> decide,
                         std::function<void()> answer) {
  const std::uint64_t before = releases();
  if (decide() == Next::kAnswer || !keep({uid, std::move(decide), answer}, before)) answer();
}

bool RejectionDelay::keep(Delayed delayed, std::uint64_t releases_before) {
  const Instant now = executor_.now();
  const MutexLock lock(mutex_);
  const auto rejected = rejected_at_.find(delayed.uid);
  const bool explained = rejected != rejected_at_.end() && rejected->second != releases_;
  // Releases come in groups: the one that matters may follow the one that was seen.
  const Instant until = (explained ? last_release_ : now) + kRejectionDelay;
  if (until <= now || !is_allowed(now)) {
    remember(delayed.uid);
    return false;
  }
  delayed.since = now;
  delayed.until = until;
  const std::uint64_t id = next_id_++;
  start_timer(id, until - now);
  if (releases_ != releases_before) post(id, delayed);
  delayed_.emplace(id, std::move(delayed));
  MGPU_CHECK(delayed_.size() <= kDelayedRejectionsMax, "the rejections that wait are bounded");
  return true;
}

void RejectionDelay::observe(std::uint64_t releases) {
  const MutexLock lock(mutex_);
  if (releases_ == releases) return;
  releases_ = releases;
  last_release_ = executor_.now();
  for (auto& [id, delayed] : delayed_) post(id, delayed);
}

// Releases that follow before it runs need no other.
void RejectionDelay::post(std::uint64_t id, Delayed& delayed) {
  if (std::exchange(delayed.posted, true)) return;
  executor_.post(callbacks_.wrap([this, id] { decide_again(id, false); }));
}

bool RejectionDelay::is_allowed(Instant now) {
  const Duration earned = (now - refilled_) * kRejectionDelayPercent / 100;
  if (earned > Duration(0)) {
    allowance_ = std::min(allowance_ + earned, kRejectionDelayAllowance);
    refilled_ = now;
  }
  return allowance_ > Duration(0) && delayed_.size() < kDelayedRejectionsMax;
}

void RejectionDelay::remember(const PodUid& uid) {
  if (rejected_at_.size() >= kRejectionsRememberedMax) rejected_at_.clear();
  rejected_at_[uid] = releases_;
}

void RejectionDelay::start_timer(std::uint64_t id, Duration delay) {
  executor_.after(delay, callbacks_.wrap([this, id] { decide_again(id, true); }));
}

void RejectionDelay::decide_again(std::uint64_t id, bool timer) {
  decltype(delayed_)::node_type node;
  std::uint64_t releases = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = delayed_.find(id);
    if (found == delayed_.end()) return;
    const Duration left = found->second.until - executor_.now();
    if (timer && left > Duration(0)) return start_timer(id, left);
    node = delayed_.extract(found);
    MGPU_CHECK(!node.empty(), "a rejection is decided by one thread at a time");
    releases = releases_;
  }
  Delayed& delayed = node.mapped();
  const bool ends = delayed.decide() == Next::kAnswer || timer;
  if (ends) delayed.answer();
  const MutexLock lock(mutex_);
  const Instant now = executor_.now();
  if (timer) remember(delayed.uid);
  if (ends) {
    allowance_ -= now - delayed.since;
    return;
  }
  delayed.until = std::min(delayed.since + kRejectionDelayMax, now + kRejectionDelay);
  delayed.posted = false;
  if (releases_ != releases) post(id, delayed);
  delayed_.insert(std::move(node));  // its timer is still running
}

}  // namespace mgpu::extender
