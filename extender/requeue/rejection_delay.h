// Delays rejections for a moment, in case the ledger is behind kube-scheduler.
//
// kube-scheduler and the ledger learn of a released share by separate watches. kube-scheduler
// filters a waiting pod again within a millisecond, so filter may be called before the ledger has
// seen the event. A rejection would strand the pod: kube-scheduler tries it again only when it is
// requeued (requeue.h), a second or two later, or when it flushes unschedulable pods
// after five minutes. A delayed rejection loses nothing.
//
//   rejected ---> delayed ---release seen, and the pod fits--------------> answer: fits
//      |           |   ^
//      |           |   +-----release seen, but the pod does not fit: a little longer
//      |           +---------no release for kRejectionDelay--------------> answer: rejected
//      +---> answered at once: there was a release since the pod's last rejection, and the last
//            one was seen more than kRejectionDelay ago; or the allowance is used up. So
//            is a pod for which a search ended at its bound
//
// kube-scheduler schedules one pod at a time, so a delay keeps the others waiting: the allowance
// limits all delays together to kRejectionDelayPercent of the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {

// Whether a decision may be answered, or a release that is not seen yet may change it.
enum class Next : std::uint8_t { kAnswer, kWait };

// Thread-safe. No callback runs after the destructor returns; a callback must not destroy it.
class RejectionDelay {
 public:
  // `executor` outlives it.
  explicit RejectionDelay(Executor& executor);

  // Calls `decide`, which filters the pod, now and after releases; then `answer`, once, now or on
  // the executor.
  void run(const PodUid& uid, std::function<Next()> decide, std::function<void()> answer);
  // `releases` is the ledger's count, after each event that it applied. Filters nothing itself.
  void observe(std::uint64_t releases);

 private:
  struct Delayed {
    PodUid uid;
    std::function<Next()> decide;
    std::function<void()> answer;
    Instant since{};
    Instant until{};
    bool posted = false;  // decide_again() has been posted because of a release
  };

  std::uint64_t releases() const;
  // Whether `delayed` is kept. Otherwise the pod is answered now.
  bool keep(Delayed delayed, std::uint64_t releases_before);
  bool is_allowed(Instant now) MGPU_REQUIRES(mutex_);
  void remember(const PodUid& uid) MGPU_REQUIRES(mutex_);
  void start_timer(std::uint64_t id, Duration delay);
  void post(std::uint64_t id, Delayed& delayed) MGPU_REQUIRES(mutex_);
  // `timer`: it is called at the end of the delay, not after a release.
  void decide_again(std::uint64_t id, bool timer);

  Executor& executor_;
  mutable Mutex mutex_;
  std::uint64_t releases_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_id_ MGPU_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Delayed> delayed_ MGPU_GUARDED_BY(mutex_);
  // The releases at each pod's last rejection.
  std::unordered_map<PodUid, std::uint64_t> rejected_at_ MGPU_GUARDED_BY(mutex_);
  Duration allowance_ MGPU_GUARDED_BY(mutex_) = kRejectionDelayAllowance;
  Instant refilled_ MGPU_GUARDED_BY(mutex_);
  Instant last_release_ MGPU_GUARDED_BY(mutex_);
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
