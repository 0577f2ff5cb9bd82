// The bind verb: choose cards on the node, assume them in the ledger, POST the binding with the
// annotations, and answer.
//
//   queued ---> (GET pod) ---> assume ---> GET Lease ---> POST binding ---201---> bound; answer ""
//                  |              |         ^    |             | 409, or the outcome is unknown:
//                  v              v         |    v             v touch the pod
//                Error          Error       |  forget;    (1)
//                                           |  Error
//                                           |
//   (1) the pod is bound as posted -------> bound; answer ""
//       bound by another attempt ---------> its annotations are assumed; "" on this node, or Error
//       unbound, and there is time -------> GET Lease, with the new resourceVersion
//       unbound, deleted or another uid --> forget; Error
//       no answer ------------------------> stays assumed; Error
//
//   POST: 429, another 4xx, or never sent ---> forget; Error
//
// Until it is known that the API server enforces preconditions, each attempt checks that before GET
// Lease. A pod of kTouchedFirstBytes or more is touched before its first POST.
//
// A POST has as preconditions the uid and the resourceVersion of the copy of the pod that was
// decided on. So it fails once the pod has been touched (pod_touch.h), wherever it is then: in a
// proxy, in the API server, or on its way to etcd. An answer to the touch that shows the pod
// unbound is the proof that the attempt did not bind it, and the only one: no waiting time is.
//
// Claims that stay assumed are settled in the same way by AssumedPodReconciler. kBindTimeout after
// bind() the answer is an error, whichever step has been reached; the steps still run to their end.
// A pod that is bound to the node already, with cards, is a success: kube-scheduler may repeat a
// bind whose answer it did not receive. A pod that names no resource of the contract is refused.
//
// The request names the pod only. Its spec is read from the API server, unless filter has left the
// pod in the cache (remember()). A pod that is bound with others first waits until the watch has
// shown its nomination, for kNominationShownMax at most. At most `binds_in_flight` attempts run at
// the same time, and kBindsQueuedMax wait. Filter waits while there are many binds
// (binds_in_flight.h).
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/kube/client.h"
#include "extender/bind/assumed_pods.h"
#include "extender/bind/attempt.h"
#include "extender/bind/binds_in_flight.h"

namespace mgpu::extender {

class Binder {
 public:
  using Done = std::function<void(const std::string& error)>;

  // `client` and what `verbs` and `guards` refer to outlive the binder.
  Binder(kube::Client& client, const VerbContext& verbs, const BindGuards& guards,
         std::size_t binds_in_flight, BinderEvents events);
  // No callback runs after the destructor returns: it waits for one that is running, unless `done`
  // calls it. Binds in progress are left to the next process, which touches their pods.
  ~Binder();

  // Keeps what bind needs of a pod that filter was sent, so that bind need not read it. The cache
  // is bounded in pods and bytes. Any thread.
  void remember(const kube::Pod& pod);
  // kube-scheduler has nominated the pod for a node since then, or does so no more.
  void remember_nominated(const kube::Pod& pod);
  void forget(const PodUid& uid);

  // `done` gets "" or one sentence, exactly once, on the client's executor. Any thread.
  void bind(BindingArgs args, Done done);

  // Starts to settle the claims that stay assumed.
  void start_reconciling() { reconciler_.start(); }
  // Binds that have begun and are not answered.
  std::size_t in_flight() const { return in_flight_.count(); }
  // Returns whether when_few_binds() runs a task at once. Any thread.
  bool has_few_binds() const { return in_flight_.few(); }
  // Runs `filter` now, or later while there are many binds (binds_in_flight.h). Any thread.
  void when_few_binds(Task filter) { in_flight_.when_few(std::move(filter)); }

 private:
  void admit(BindingArgs args, Instant deadline, Done done);
  void start_next();
  void report(const PodUid& uid, const BindAnswer& answer, const Done& done);

  // Used on the client's executor, like all below, except for what is thread-safe.
  const std::size_t running_max_;
  std::size_t running_ = 0;
  BinderContext context_;
  AssumedPodReconciler reconciler_{context_};
  std::deque<std::shared_ptr<BindAttempt>> waiting_;  // the one that came first is in front
  BindsInFlight in_flight_;
};

}  // namespace mgpu::extender
