#include "extender/election/candidate.h"

#include <algorithm>
#include <chrono>

#include "common/base/rfc3339.h"

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
  const bool absent = observed_ && !lease_ && !lease;
  const bool same = absent || (observed_ && lease_ && lease && same_record(*lease_, *lease));
  const bool same_holder = observed_ && lease_ && lease && lease_->holder == lease->holder;
  if (!same) changed_at_ = same_holder ? renewed_at(lease->renew_time, now) : now;
  if (!same) seen_at_ = now;
  if (!same_holder) held_since_ = now;
  observed_ = true;
  lease_ = lease;
}

// The times in the Lease are cut to seconds.
Instant LeaseCandidate::renewed_at(const std::string& time, Instant now) const {
  const auto before = read_rfc3339(lease_->renew_time);
  const auto renewed = read_rfc3339(time);
  if (!before || !renewed || *renewed < *before) return now;
  return std::min(now, seen_at_ + (*renewed - *before) + std::chrono::seconds(1));
}

bool LeaseCandidate::may_take(Instant now) const {
  if (!observed_) return false;
  return (lease_ && lease_->holder == identity_) || now >= due_at(now);
}

Duration LeaseCandidate::wait(Instant now) const {
  return std::max(Duration(due_at(now) - now), Duration(1));
}

// When the Lease may be taken, if nothing happens before.
Instant LeaseCandidate::due_at(Instant now) const {
  const bool held = lease_ && !lease_->holder.empty();
  const Instant free_at = held ? changed_at_ + duration() : changed_at_;
  if (!options_.when_asked) return free_at;
  if (!is_asked(now)) return free_at + kTakenUnaskedAfter;
  return held ? std::min(free_at, held_since_ + kTakenFromHolderAfter) : free_at;
}

// A holder that does not renew the Lease states no duration.
Duration LeaseCandidate::duration() const {
  if (lease_->duration_s <= 0) return options_.duration;
  return std::min(Duration(std::chrono::seconds(lease_->duration_s)), Duration(kLeaseDurationMax));
}

bool LeaseCandidate::is_asked(Instant now) const {
  return asked_at_ && now - *asked_at_ < kAskedFor;
}

kube::Lease LeaseCandidate::taken(const kube::ObjectRef& ref, const std::string& time) const {
  kube::Lease mine = lease_.value_or(kube::Lease());
  mine.ref = ref;
  if (lease_ && mine.holder != identity_) ++mine.transitions;
  mine.holder = identity_;
  mine.duration_s = whole_seconds(options_.duration);
  mine.acquire_time = time;
  mine.renew_time = time;
  return mine;
}

}  // namespace mgpu::extender
