// What happens with a pod that filter rejects: whether it is answered now (rejection_delay.h), and
// when kube-scheduler is made to try it again, where it may not do so by itself.
//
//   filter ---> fits -------------------------------------------------> answer
//      |------> fits on nodes that were not sent (asked_nodes.h) -----> requeue, answer
//      |------> may change ---no release makes it fit for a moment----> remember, answer
//      |------> may change later, or needs other cards ---------------> remember, answer
//      +------> rejected ---------------------------------------------> answer
//
// requeue_tracker.h has the pods that are remembered, and decides when there is a requeue.
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
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "extender/ledger/ledger.h"
#include "extender/requeue/asked_nodes.h"
#include "extender/requeue/limits.h"
#include "extender/requeue/rejected_pods.h"
#include "extender/requeue/rejection_delay.h"
#include "extender/requeue/requeue_tracker.h"
#include "extender/wire/wire.h"

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
class Requeue {
 public:
  // All references outlive it. Pods that wait are decided again on `delayed`. The object is written
  // in the namespace `name_space`; if that is empty, pods are never requeued.
  Requeue(kube::Client& client, Ledger& ledger, Executor& delayed, std::string name_space,
          RequeueEvents events);
  // Filters the pod about the nodes `asked`, which are valid as long as `answer` exists: calls
  // `decide`, now and after releases; then `answer`, once, now or on `delayed`.
  void filter(const PodUid& uid, std::span<const std::string_view> asked,
              std::function<FilterReply(Instant now)> decide,
              std::function<void(const FilterReply& reply)> answer);
  // kube-scheduler calls preempt for the pod. Returns whether no pod should be evicted, since the
  // pod is tried again first.
  bool take_wait(const PodUid& uid);
  // The pod is bound, finished or deleted.
  void on_settled(const PodUid& uid);
  // The ledger has changed.
  void on_change() { delay_.observe(ledger_.reader().releases()); }
  RejectedPods& rejected_pods() { return rejected_; }

 private:
  // A call of filter that has no answer yet.
  struct Call {
    PodUid uid;
    std::span<const std::string_view> asked;
    std::function<FilterReply(Instant now)> decide;
    std::function<void(const FilterReply& reply)> answer;
    std::optional<std::uint64_t> releases{};  // of the ledger, when `reply` was decided
    std::uint64_t card_changes = 0;           // the same
    FilterReply reply{};
    bool is_requeued = false;  // at once
  };

  Next decide(Call& call);
  void answer(const Call& call);
  // Returns whether kube-scheduler may find another node for the pod, and tries it again soon.
  bool requeue_at_once(const Call& call);
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
  RejectedPods rejected_;
  CallbackGuard callbacks_;
  RejectionDelay delay_;  // ends first: its callbacks use the others
};

}  // namespace mgpu::extender
