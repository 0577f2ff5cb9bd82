// bind: place on the one node, assume, POST the binding with the annotations, tell the outcome.
//
//                                                          201
//   queued ---> (GET pod) ---> assume ----> POST binding -------> bound --> answer ""
//                  |              |             | 409, lost: GET pod: ours? ---> bound
//                  v              v             |         409 and not ours, gone ---> forget, Error
//                Error          Error           | lost and unbound, or unreadable: stays assumed
//                                               |   until the recheck has read the pod; Error
//                                               | other error: forget, Error
//
//   recheck: GET pod ---> ours: bound; unbound, elsewhere, another, gone: forget; unreadable: later
//
// kBindTimeout after bind() the answer is an Error wherever the attempt stands; what was
// begun is still brought to its end. A pod that stands on that node already, with cards, is a
// success: kube-scheduler may repeat a bind whose answer it missed.
//
// The pod's spec is not in the request, so it is read first where filter has not left it here
// (remember()). A pod that asks for no cards is bound without assuming anything. At most
// `binds_in_flight` run at once; kBindsQueuedMax wait.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/kube/client.h"
#include "extender/bind/limits.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/verbs.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

enum class BindOutcome {
  kBound,
  kUnfit,        // refused by the ledger: the race of filter against bind, or a full node
  kBadRequest,   // the pod, or its name in the request, is not one that can be bound
  kConflict,     // the API server says that it is bound, gone, another, or refuses it
  kUnavailable,  // the API server did not answer in time, or the queue is full
};

struct BinderEvents {
  std::function<void(BindOutcome outcome)> on_outcome;
  std::function<void(const std::string& problem)> on_problem;  // for the log
};

class Binder {
 public:
  // `client` and `ledger` outlive the binder.
  Binder(kube::Client& client, Ledger& ledger, const Settings& settings,
         std::size_t binds_in_flight, BinderEvents events);
  // Calls nobody after it: waits for a callback that is running, except where it is called from
  // one. What is going on is left to the next start, which reads everything anew.
  ~Binder();

  // Filter has the whole pod in hand: bind need not read it. Bounded; the oldest are forgotten.
  void remember(const kube::Pod& pod);

  // `done` gets "" or one sentence, exactly once, on the client's executor. Any thread.
  void bind(BindingArgs args, std::function<void(std::string error)> done);

  // Reads assumed pods without an outcome again, once every kAssumedReconcileAfter.
  void start_rechecks();
  // Binds begun and not answered.
  std::size_t in_flight() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::extender
