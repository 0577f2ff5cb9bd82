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
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/reflector.h"
#include "extender/bind/attempt.h"

namespace mgpu::extender {

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
                const BindGuards& guards, Events events);
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
    std::string resource_version;
  };

  void on_pending(std::vector<Pending> pods);
  void touch_more();
  void on_touched(const Pending& pending, const kube::ApiResult<kube::Pod>& touched);
  void on_failed(const Pending& pending, const std::string& problem);
  std::string step_text() const MGPU_REQUIRES(mutex_);
  void enter(Step step);
  void report_progress();
  void note_problem(const std::string& sentence);
  // Notes the problem, and calls `step` again after a backoff.
  void retry(const std::string& sentence, void (StartSequence::*step)());

  kube::Transport& transport_;
  kube::Client& client_;
  const Contract& contract_;
  const BindGuards guards_;
  const Events events_;
  mutable Mutex mutex_;
  Step step_ MGPU_GUARDED_BY(mutex_) = Step::kChecking;
  std::size_t touched_ MGPU_GUARDED_BY(mutex_) = 0;
  std::size_t pending_ MGPU_GUARDED_BY(mutex_) = 0;
  // Below: on the executor.
  NodeName check_node_;
  int checks_left_ = 0;
  std::optional<kube::Reflector> lister_;
  std::deque<Pending> to_touch_;
  std::size_t in_flight_ = 0;
  // Fewer after a failure: large pods in parallel may all take longer than the timeout.
  std::size_t in_flight_max_ = kStartTouchesInFlight;
  int failures_ = 0;  // in a row
  Backoff backoff_{kTouchBackoffFirst, kTouchBackoffMax};
  bool waiting_ = false;     // a backoff runs
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
