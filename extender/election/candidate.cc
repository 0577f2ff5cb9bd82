#include "extender/election/candidate.h"

#include <algorithm>
#include <chrono>

namespace mgpu::extender {
namespace {

// Without the resourceVersion: somebody who annotates the Lease does not renew it.
bool same_record(const kube::Lease& a, const kube::Lease& b) {
  return a.holder == b.holder && a.duration_s == b.duration_s && a.acquire_time == b.acquire_time &&
         a.renew_time == b.renew_time && a.transitions == b.transitions;
}

std::int32_t whole_seconds(Duration duration) {
  return static_cast<std::int32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

}  // namespace

void LeaseCandidate::observe(const std::optional<kube::Lease>& lease, Instant now) {
  const bool same = observed_ && lease_ && lease && same_record(*lease_, *lease);
  const bool same_holder = observed_ && lease_ && lease && lease_->holder == lease->holder;
  if (!same) changed_at_ = now;
  if (!same_holder) held_since_ = now;
  observed_ = true;
  lease_ = lease;
}

bool LeaseCandidate::may_take(Instant now) const {
  if (!observed_) return false;
  if (!lease_ || lease_->holder.empty() || lease_->holder == identity_) return true;
  return now - changed_at_ >= duration() || is_asked(now);
}

Duration LeaseCandidate::wait(Instant now) const {
  Duration left = changed_at_ + duration() - now;
  if (settings_.when_asked && asked_at_ && now - *asked_at_ < kAskedFor) {
    left = std::min(left, Duration(held_since_ + kTakenFromHolderAfter - now));
  }
  return std::max(left, Duration(1));
}

// A holder that does not renew the Lease states no duration.
Duration LeaseCandidate::duration() const {
  if (lease_->duration_s <= 0) return settings_.duration;
  return std::min(Duration(std::chrono::seconds(lease_->duration_s)), Duration(kLeaseDurationMax));
}

bool LeaseCandidate::is_asked(Instant now) const {
  return settings_.when_asked && asked_at_ && now - *asked_at_ < kAskedFor &&
         now - held_since_ >= kTakenFromHolderAfter;
}

kube::Lease LeaseCandidate::taken(const kube::LeaseRef& ref, const std::string& time) const {
  kube::Lease mine = lease_.value_or(kube::Lease());
  mine.ref = ref;
  if (lease_ && mine.holder != identity_) ++mine.transitions;
  mine.holder = identity_;
  mine.duration_s = whole_seconds(settings_.duration);
  mine.acquire_time = time;
  mine.renew_time = time;
  return mine;
}

}  // namespace mgpu::extender
