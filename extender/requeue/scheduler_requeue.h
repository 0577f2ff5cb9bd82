// Wakes kube-scheduler for refused pods that it may have forgotten: the second line behind
// RejectionDelay, which can hold for a moment only. Who and when is in requeue_tracker.h.
//
// kube-scheduler takes no calls from an extender. But a pod that one has refused is tried again
// after any event of the kinds that it follows (kubernetes pkg/scheduler/framework/types.go,
// UnrollWildCardResource), CSIStorageCapacity among them. So one object of this kind is written at
// each wake. Its storage class does not exist: no volume is ever decided by it.
//
//   due ---> PATCH ---2xx---------------------------> woken
//              |---404---> POST ---2xx, 409---------> woken   (409: another has just written it)
//              |             +----other--> failed: again after 1 s, 2 s, ... 60 s
//              +---other------------------> failed
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/callback_guard.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "extender/ledger/ledger.h"
#include "extender/requeue/limits.h"
#include "extender/requeue/requeue_tracker.h"

namespace mgpu::extender {

inline constexpr const char* kWakeObject = "mgpu-wake-kube-scheduler";

enum class RequeueOutcome {
  kRequeued,
  kRefused,  // no right, no such namespace: it takes somebody to change that
  kFailed,   // no answer, or one that may be another the next time
};

// On the client's executor.
struct WakerEvents {
  std::function<void(RequeueOutcome outcome)> on_outcome;
  // Once for each new sentence in a row: what failed, and what to do.
  std::function<void(const std::string& problem)> on_problem;
};

// Thread-safe; no call waits. No callback runs after the destructor returns; events must not call
// it.
class SchedulerRequeue {
 public:
  // `client` and `ledger` outlive it. The object is written in the namespace `space`; empty: nobody
  // is ever woken.
  SchedulerRequeue(kube::Client& client, const Ledger& ledger, std::string space,
                   WakerEvents events);
  // kube-scheduler asks about the pod.
  void asked(const PodUid& uid);
  // It is told that no node fits, though news might help; decided on a ledger of `releases`.
  void refused(const PodUid& uid, std::uint64_t releases);
  // Bound, finished or deleted.
  void gone(const PodUid& uid);

 private:
  void arm() MGPU_REQUIRES(mutex_);
  void look();
  bool begin(std::uint64_t releases, Instant now);

  // Below: on the executor.
  using Done = void (SchedulerRequeue::*)(const kube::ApiResult<void>&);
  kube::StorageCapacity object();
  void write(kube::Request request, Done done);
  void on_patched(const kube::ApiResult<void>& patched);
  void on_created(const kube::ApiResult<void>& created);
  void woken();
  void failed(const kube::ApiError& problem);

  kube::Client& client_;
  const Ledger& ledger_;
  const std::string space_;
  const WakerEvents events_;
  Mutex mutex_;
  RequeueTracker list_ MGPU_GUARDED_BY(mutex_);
  bool armed_ MGPU_GUARDED_BY(mutex_) = false;
  // Below: on the executor.
  const std::uint32_t start_;  // tells the values of one process from those of another
  std::uint64_t written_ = 0;
  Duration retry_{kRequeueRetryFirst};
  std::string told_;         // the last problem, while it lasts
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
