// Holds refusals for a moment, in case the ledger is behind kube-scheduler.
//
// When a share comes free, kube-scheduler and the ledger hear of it by watches of their own. The
// scheduler asks again within a millisecond, so that its question can be here before the event is.
// A refusal then would strand the pod: once the event has passed, the scheduler asks again only
// when it is woken (scheduler_requeue.h), a second or two later, or at its own flush after five
// minutes. Held in time, the pod loses nothing.
//
//   refused ---> held ---release seen, fits now-----------------> answered: it fits
//      |          |  ^                                            ^
//      |          |  +--release seen, still unfit: a little longer|
//      |          +-----quiet for kRejectionDelay------------+ answered: refused
//      +---> answered at once: a release since the pod's last refusal explains the question, and
//            none has come for kRejectionDelay; or the allowance is used up
//
// kube-scheduler decides on one pod at a time, so what is held is taken from the others: an
// allowance keeps all holding together under kRejectionDelayPercent of the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

// Thread-safe. No callback runs after the destructor returns; they must not end it.
class RejectionDelay {
 public:
  // Decides again, on the executor. `last`: the refusal must be answered now. Returns whether it
  // has answered.
  using Decide = std::function<bool(bool last)>;

  // `executor` outlives it.
  explicit RejectionDelay(Executor& executor);

  // To be read before deciding, and handed to hold().
  std::uint64_t releases() const;
  // True: `decide` will be called until it answers. False: answer now.
  bool hold(const PodUid& uid, std::uint64_t releases_before, Decide decide);
  // The ledger's count of releases, after each event that it applied. On the executor.
  void observe(std::uint64_t releases);

 private:
  struct Held {
    PodUid uid;
    Instant since;
    Instant until;
    Decide decide;
  };

  bool allowed(Instant now) MGPU_REQUIRES(mutex_);
  Instant end_of_hold(const PodUid& uid, Instant now) const MGPU_REQUIRES(mutex_);
  void remember(const PodUid& uid) MGPU_REQUIRES(mutex_);
  std::optional<Held> take(std::uint64_t id) MGPU_REQUIRES(mutex_);

  void arm(std::uint64_t id, Duration delay);
  void on_timer(std::uint64_t id);
  void decide_again(std::uint64_t id);
  void answer(Held held);

  Executor& executor_;
  mutable Mutex mutex_;
  std::uint64_t releases_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_id_ MGPU_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Held> held_ MGPU_GUARDED_BY(mutex_);
  std::unordered_map<PodUid, std::uint64_t> refused_at_
      MGPU_GUARDED_BY(mutex_);  // releases at a pod's last refusal
  Duration allowance_ MGPU_GUARDED_BY(mutex_) = kRejectionDelayAllowance;
  Instant refilled_ MGPU_GUARDED_BY(mutex_);
  Instant last_release_ MGPU_GUARDED_BY(mutex_);
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
