// What every start does before the extender decides: it makes sure that no binding of an earlier
// process can happen any more.
//
//   Checking --409--> Taking --Lease taken--> Listing --pending pods--> Touching --all--> Done
//      |                |                        |                         |
//      +----------------+------------------------+--- failure: again after a backoff
//
// Checking: a dry run of a binding shows that the API server checks preconditions. Any pod will do,
// so the first of kStartChecksMax pods that gives a clear answer decides: admission comes before
// preconditions, and refuses each binding in a namespace that is being deleted, for example.
// Without a clear answer the first bind checks, as in a cluster without pods (attempt.cc). Taking:
// from here on an earlier process that has a copy of a pod newer than this finds another holder in
// the Lease and sends no binding. Touching: every pending pod that requests cards gets a new
// resourceVersion, so that a binding with an older copy, wherever it still waits, is refused. The
// list of bound pods that the ledger is built from is requested after Done, and so has all bindings
// that came first.
//
// A pod that can be read and not changed, because a policy or a webhook refuses it, holds up
// nobody: at once after a clear refusal, or after kStartTouchesOfAPod touches without a clear
// answer. It is unsettled: an earlier process may have sent a binding of it, which may still
// happen, on a node that is not known. For kLateBindingMax after the Lease was taken, what the pod
// may hold of a card counts on every card, for all pods but itself. It is touched again and again,
// and settled once that succeeds or anybody has changed it. It may be bound meanwhile: of two
// bindings with the same resourceVersion as precondition only one happens, so either this one
// fails, or the earlier one.
//
// An earlier process may have bound a part of a group, and what it had answered for the other
// members is not known. What these may hold is kept from all other pods for kGroupRetryLife, or
// until filter answers or refuses them (ledger/nominations.h).
//
// kLateBindingMax is no proof, and is used for these pods alone. A binding that was sent before
// this process took the Lease happens later than that only where its process, its machine, a proxy
// or an API server stood still for as long between the read of the Lease and the write. Nothing but
// a change of the pod excludes that. Counting the pod for ever would be a proof, but then a few
// pods of one tenant would stop a cluster. A card that gets more than its capacity in this way is
// reported (MGPUCardsOverfull), and the device plugin starts no container for which it has no room.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/watch/reflector.h"
#include "extender/bind/attempt.h"

namespace mgpu::extender {

// A pending pod that cannot be changed.
struct UnsettledPod {
  PodRef pod;
  PodUid uid;
  std::string problem;  // one sentence
};

class StartSequence {
 public:
  struct Events {
    std::function<void()> on_done;                                // once, before done() is true
    std::function<void(const std::string& sentence)> on_problem;  // each failure
    std::function<void(std::size_t touched, std::size_t all)>
        on_progress;  // each tenth, and at the end
  };

  // All references outlive it. Callbacks run on the transport's executor.
  StartSequence(kube::Transport& transport, kube::Client& client, const Contract& contract,
                const BindGuards& guards, Ledger& ledger, Events events);
  ~StartSequence() { stop(); }

  void start();
  // No callback runs after it returns. Not on the executor.
  void stop();

  // Any thread.
  bool done() const;
  // It waits for the Lease.
  bool taking() const;
  // What it waits for, for /readyz: "lease kube-system/mgpu-extender", "pending pods: 3 of 8
  // touched". Everybody may read it, so it does not have the reason, which may name a pod: the log
  // has it. Empty once it is done.
  std::string waiting_for() const;
  // How many pods are unsettled.
  std::size_t unsettled() const { return unsettled_count_; }

  // The first `most` unsettled pods. On the executor.
  std::vector<UnsettledPod> unsettled_pods(std::size_t most) const;

 private:
  enum class Step { kChecking, kTaking, kListing, kTouching, kDone };

  void check();
  // Asks about one pod after the other, from this page of one pod on.
  void check_page(const std::string& continue_token);
  void check_pod(const kube::Response& page);
  void take_lease();
  void list_pending();
  struct Pending {
    PodRef pod;
    PodUid uid;
    std::string resource_version;
    Share most;  // what it may hold of any card
    std::string group;
    int touches = 0;  // that failed
  };
  struct Unsettled {
    Pending pending;
    std::string problem;
  };

  void on_pending(std::vector<Pending> pods);
  void touch_more();
  void on_touched(const Pending& pending, const kube::ApiResult<kube::Pod>& touched);
  void on_failed(Pending pending, const kube::ApiError& failure);
  void set_aside(const Pending& pending, const std::string& problem);
  void settle(const Pending& pending);
  void finish();
  void try_unsettled();
  void enter(Step step);
  void report_progress();
  void note_problem(const std::string& sentence);
  // Notes the problem, and calls `step` again after a backoff.
  void retry(const std::string& sentence, void (StartSequence::*step)());
  void wait_then(void (StartSequence::*step)());

  kube::Transport& transport_;
  kube::Client& client_;
  const Contract& contract_;
  const BindGuards guards_;
  Ledger& ledger_;
  const Events events_;
  mutable Mutex mutex_;
  Step step_ MGPU_GUARDED_BY(mutex_) = Step::kChecking;
  std::size_t touched_ MGPU_GUARDED_BY(mutex_) = 0;
  std::size_t pending_ MGPU_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> unsettled_count_ = 0;
  // Below: on the executor.
  NodeName check_node_;
  int checks_left_ = 0;
  std::optional<kube::Reflector> lister_;
  std::deque<Pending> to_touch_;
  std::deque<Pending> again_;  // after a backoff, when the others are done
  Instant bindings_end_{};     // kLateBindingMax after the Lease was taken
  std::map<PodUid, Unsettled> unsettled_;
  // By namespace, the pods that failed, though the API server works, since the last that did not.
  std::map<std::string, std::set<PodUid>> failed_in_;
  PodUid tried_last_;  // of the unsettled pods
  std::size_t in_flight_ = 0;
  // Fewer after a failure: large pods in parallel may all take longer than the timeout.
  std::size_t in_flight_max_ = kStartTouchesInFlight;
  int failures_ = 0;  // in a row
  Backoff backoff_{kTouchBackoffFirst, kTouchBackoffMax};
  bool waiting_ = false;     // a backoff runs
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
