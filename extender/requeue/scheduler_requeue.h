// Makes kube-scheduler try rejected pods again that it may not try by itself, where RejectionDelay
// was not enough. requeue_tracker.h decides which pods and when.
//
// An extender cannot call kube-scheduler. But kube-scheduler tries a pod that an extender has
// rejected again after any event of the kinds that it watches (kubernetes
// pkg/scheduler/framework/types.go, UnrollWildCardResource), and CSIStorageCapacity is one of them.
// So each requeue writes one object of this kind. Its storage class does not exist: no volume
// depends on it.
//
//   due ---> PATCH ---2xx--------------------------> succeeded
//              |---404---> POST ---2xx, 409--------> succeeded  (409: another replica wrote it)
//              |             +----other---> failed: retried after 1 s, 2 s, ... 60 s
//              +---other------------------> failed
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "extender/ledger/ledger.h"
#include "extender/requeue/asked_nodes.h"
#include "extender/requeue/limits.h"
#include "extender/requeue/requeue_tracker.h"

namespace mgpu::extender {

// The name and the annotation of the object.
inline constexpr const char* kRequeueObject = "mgpu-requeue";

enum class RequeueOutcome {
  kRequeued,
  kRefused,  // the namespace or the right to write is missing: retries will not help
  kFailed,   // there was no answer, or one that may change
};

// On the client's executor.
struct RequeueEvents {
  std::function<void(RequeueOutcome outcome)> on_outcome;
  // Called once while the same problem lasts; the sentence names the failure and the remedy.
  std::function<void(const std::string& problem)> on_problem;
};

// Thread-safe; no call blocks. No callback runs after the destructor returns; a callback must not
// destroy it.
class SchedulerRequeue {
 public:
  // `client` and `ledger` outlive it. The object is written in the namespace `name_space`; where
  // that is empty, pods are never requeued.
  SchedulerRequeue(kube::Client& client, Ledger& ledger, std::string name_space,
                   RequeueEvents events);
  // kube-scheduler filters the pod.
  void on_filter(const PodUid& uid);
  // Filter rejected the pod when the ledger had counted `releases`; a release could make it fit.
  void on_rejected(const PodUid& uid, std::uint64_t releases);
  // Filter rejected a pod of the group on the nodes `asked`, and it fits on `fitting`. Returns
  // whether kube-scheduler may find one of these (asked_nodes.h): then it tries the pod again soon.
  // Never where pods cannot be requeued.
  bool on_rejected_in_part(PodGroup group, const PodUid& uid,
                           std::span<const std::string_view> asked,
                           std::span<const std::string> fitting, std::uint64_t releases);
  // kube-scheduler calls preempt for the pod. Returns whether no pod should be evicted.
  bool take_wait(const PodUid& uid);
  // Filter has found a node for a pod of the group.
  void on_fits(PodGroup group);
  // The pod is bound, finished or deleted.
  void on_settled(const PodUid& uid);

 private:
  void start_timer() MGPU_REQUIRES(mutex_);
  // Below: on the executor.
  void poll();
  void send_if_due();
  void requeue();
  void finish(const kube::ApiResult<void>& written);

  kube::Client& client_;
  Ledger& ledger_;
  const std::string name_space_;
  const RequeueEvents events_;
  Mutex mutex_;
  RequeueTracker tracker_ MGPU_GUARDED_BY(mutex_);
  AskedNodes asked_ MGPU_GUARDED_BY(mutex_);
  bool refused_ MGPU_GUARDED_BY(mutex_) = false;  // the last write
  bool timer_runs_ MGPU_GUARDED_BY(mutex_) = false;
  // Below: on the executor.
  const std::uint32_t process_;  // random: no two processes write the same values
  std::uint64_t written_ = 0;
  Backoff backoff_{kRequeueRetryFirst, kRequeueRetryMax};
  std::string logged_problem_;  // empty after a success
  CallbackGuard callbacks_;     // ends first
};

}  // namespace mgpu::extender
