#include "extender/requeue/rejection_delay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

RejectionDelay::RejectionDelay(Executor& executor)
    : executor_(executor), refilled_(executor.now()), last_release_(refilled_) {}

std::uint64_t RejectionDelay::releases() const {
  const MutexLock lock(mutex_);
  return releases_;
}

bool RejectionDelay::hold(const PodUid& uid, std::uint64_t releases_before, Decide decide) {
  const Instant now = executor_.now();
  const MutexLock lock(mutex_);
  const Instant until = end_of_hold(uid, now);
  if (until <= now || !allowed(now)) {
    remember(uid);
    return false;
  }
  const std::uint64_t id = next_id_++;
  held_.emplace(id, Held{uid, now, until, std::move(decide)});
  arm(id, until - now);
  if (releases_ != releases_before)
    executor_.post(callbacks_.wrap([this, id] { decide_again(id); }));
  return true;
}

void RejectionDelay::observe(std::uint64_t releases) {
  std::vector<std::uint64_t> ids;
  {
    const MutexLock lock(mutex_);
    if (releases_ == releases) return;
    releases_ = releases;
    last_release_ = executor_.now();
    for (const auto& [id, held] : held_) ids.push_back(id);
  }
  for (const std::uint64_t id : ids) decide_again(id);
}

bool RejectionDelay::allowed(Instant now) {
  const Duration earned = (now - refilled_) * kRejectionDelayPercent / 100;
  if (earned > Duration(0)) {
    allowance_ = std::min(allowance_ + earned, kRejectionDelayAllowance);
    refilled_ = now;
  }
  return allowance_ > Duration(0) && held_.size() < kDelayedRejectionsMax;
}

Instant RejectionDelay::end_of_hold(const PodUid& uid, Instant now) const {
  const auto before = refused_at_.find(uid);
  const bool explained = before != refused_at_.end() && before->second != releases_;
  // Releases come in groups: the one that matters may be right behind the one that was seen.
  return (explained ? last_release_ : now) + kRejectionDelay;
}

void RejectionDelay::remember(const PodUid& uid) {
  if (refused_at_.size() >= kRejectionsRememberedMax) refused_at_.clear();
  refused_at_[uid] = releases_;
}

std::optional<RejectionDelay::Held> RejectionDelay::take(std::uint64_t id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return std::nullopt;
  Held taken = std::move(found->second);
  held_.erase(found);
  return taken;
}

void RejectionDelay::arm(std::uint64_t id, Duration delay) {
  executor_.after(delay, callbacks_.wrap([this, id] { on_timer(id); }));
}

void RejectionDelay::on_timer(std::uint64_t id) {
  std::optional<Held> due;
  {
    const MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end()) return;
    const Instant now = executor_.now();
    if (found->second.until > now) return arm(id, found->second.until - now);
    due = take(id);
  }
  answer(std::move(*due));
}

void RejectionDelay::answer(Held due) {
  due.decide(true);
  const MutexLock lock(mutex_);
  remember(due.uid);
  allowance_ -= executor_.now() - due.since;
}

void RejectionDelay::decide_again(std::uint64_t id) {
  std::optional<Held> again;
  {
    const MutexLock lock(mutex_);
    again = take(id);
  }
  if (!again) return;
  const bool answered = again->decide(false);
  const MutexLock lock(mutex_);
  if (answered) {
    allowance_ -= executor_.now() - again->since;
    return;
  }
  again->until = std::min(again->since + kRejectionDelayMax, executor_.now() + kRejectionDelay);
  held_.emplace(id, std::move(*again));  // its timer is still running
}

}  // namespace mgpu::extender
