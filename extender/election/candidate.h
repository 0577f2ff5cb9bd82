// When a process that does not hold the Lease may take it.
//
// A candidate never compares its clock with that of the holder. It counts from the moment it last
// saw the Lease change: a holder that renews the Lease changes it, and a Lease that has not changed
// for its duration has expired (client-go tools/leaderelection/leaderelection.go). A renewal that
// was long on its way, such as one that the network has kept of a holder that has ended, counts
// from the time when it was sent: by the holder's own clock so much later than the one before. The
// election decides who should lead, and how soon. That no card is given away twice does not depend
// on it (bind/holder_lease.h).
#pragma once

#include <optional>
#include <string>

#include "common/base/executor.h"
#include "common/kube/objects/objects.h"
#include "extender/election/limits.h"

namespace mgpu::extender {

struct ElectionOptions {
  // renew_deadline is less than duration, and retry is less than renew_deadline.
  Duration duration{kLeaseDuration};        // of a Lease that this process holds
  Duration renew_deadline{kRenewDeadline};  // a holder that cannot renew it for so long ends
  Duration retry{kLeaseRetry};              // between two renewals
  // Whether it takes the Lease from its holder when kube-scheduler calls this process.
  bool when_asked = false;
};

// Not thread-safe; without I/O and clock. `now` never goes back from call to call.
class LeaseCandidate {
 public:
  LeaseCandidate(std::string identity, const ElectionOptions& options)
      : identity_(std::move(identity)), options_(options) {}

  // The Lease as it is; none if it does not exist.
  void observe(const std::optional<kube::Lease>& lease, Instant now);
  // kube-scheduler has sent this process a request.
  void note_asked(Instant now) { asked_at_ = now; }

  // The Lease does not exist or has no holder, it has expired, this process holds it already, or
  // kube-scheduler calls this process. If processes lead when they are called, one that is not
  // called waits for some time. False before the first observe().
  bool may_take(Instant now) const;
  // After this time may_take() may be true, if nothing happens before. Positive.
  Duration wait(Instant now) const;
  // What to write to take the Lease now. `time` is the wall clock's, as metav1.MicroTime.
  kube::Lease taken(const kube::ObjectRef& ref, const std::string& time) const;
  // The holder that was observed last; empty: there is none.
  std::string holder() const { return lease_ ? lease_->holder : std::string(); }

 private:
  Duration duration() const;
  // When the observed holder renewed the Lease that it now says to have renewed at this time.
  Instant renewed_at(const std::string& time, Instant now) const;
  bool is_asked(Instant now) const;
  Instant due_at(Instant now) const;

  const std::string identity_;
  const ElectionOptions options_;
  bool observed_ = false;
  std::optional<kube::Lease> lease_;
  Instant changed_at_{};  // the Lease became what it is now
  Instant seen_at_{};     // it was first seen as it is now
  Instant held_since_{};  // its holder was first seen
  std::optional<Instant> asked_at_;
};

}  // namespace mgpu::extender
