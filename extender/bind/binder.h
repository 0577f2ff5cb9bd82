// The bind verb: choose cards on the node, assume them in the ledger, POST the binding with the
// annotations, and answer.
//
//                                                        201
//   queued ---> (GET pod) ---> assume ---> POST binding -------> bound --> answer ""
//                  |              |            | 409 or no answer: GET pod
//                  v              v            |   bound as posted ---> bound
//                Error          Error          |   no answer, and the pod is still unbound, or the
//                                              |     GET failed: stays assumed; Error
//                                              |   otherwise: forget; Error
//                                              | other error: forget; Error
//
//   every kAssumedReconcileAfter, for each claim that is still assumed: GET pod
//     bound as posted ---> bound; the GET failed ---> again the next time; otherwise ---> forget
//
// kBindTimeout after bind() the answer is an error, whichever step has been reached; the steps
// still run to their end. A pod that is bound to the node already, with cards, is a success:
// kube-scheduler may repeat a bind whose answer it did not receive.
//
// The request names the pod only. Its spec is read from the API server, unless filter has left the
// pod in the cache (remember()). A non-GPU pod is bound without assuming anything. At most
// `binds_in_flight` attempts run at the same time, and kBindsQueuedMax wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/kube/client.h"
#include "extender/bind/assumed_pods.h"
#include "extender/bind/attempt.h"

namespace mgpu::extender {

class Binder {
 public:
  using Done = std::function<void(const std::string& error)>;

  // `client` and `ledger` outlive the binder.
  Binder(kube::Client& client, Ledger& ledger, const Settings& settings,
         std::size_t binds_in_flight, BinderEvents events);
  // No callback runs after the destructor returns: it waits for one that is running, unless `done`
  // calls it. Binds in progress are left to the next process, which reads all pods.
  ~Binder();

  // Keeps a pod that filter was sent, so that bind need not read it. The cache is bounded.
  void remember(const kube::Pod& pod) { context_.pods.put(pod); }

  // `done` gets "" or one sentence, exactly once, on the client's executor. Any thread.
  void bind(BindingArgs args, Done done);

  // Starts to reconcile the claims that stay assumed, every kAssumedReconcileAfter.
  void start_reconciling() { reconciler_.start(); }
  // Binds that have begun and are not answered.
  std::size_t in_flight() const { return in_flight_; }

 private:
  void admit(BindingArgs args, Instant deadline, Done done);
  void start_next();
  void report(const BindAnswer& answer, const Done& done);

  std::atomic<std::size_t> in_flight_ = 0;
  // All below is used on the client's executor.
  const std::size_t running_max_;
  std::size_t running_ = 0;
  BinderContext context_;
  AssumedPodReconciler reconciler_{context_};
  std::deque<std::shared_ptr<BindAttempt>> waiting_;  // the one that came first is in front
};

}  // namespace mgpu::extender
