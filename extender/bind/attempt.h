// One bind, from the head of the queue to its answer; binder.h has the diagram. For the binder
// only, on the client's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "extender/bind/awaited_nominations.h"
#include "extender/bind/bindable_pod.h"
#include "extender/bind/binding_state.h"
#include "extender/bind/holder_lease.h"
#include "extender/bind/limits.h"
#include "extender/bind/pod_cache.h"
#include "extender/bind/pod_touch.h"
#include "extender/bind/posted_bindings.h"
#include "extender/bind/precondition_check.h"
#include "extender/ledger/ledger.h"
#include "extender/wire/wire.h"

namespace mgpu::extender {

enum class BindOutcome {
  kBound,
  kUnfit,        // the ledger refused it: the node has filled up since filter
  kBadRequest,   // the pod, or its name in the request, cannot be bound
  kConflict,     // the API server refused it, or the pod is bound, deleted or replaced
  kUnavailable,  // the API server did not answer in time, or the queue is full
};

struct BindAnswer {
  BindOutcome outcome = BindOutcome::kBound;
  std::string error;  // one sentence; empty if the pod is bound
};

struct BinderEvents {
  std::function<void(BindOutcome outcome)> on_outcome;
  std::function<void(const std::string& problem)> on_problem;  // for the log
  // A POST was answered 409. The pod is touched, and the binding tried again while there is time.
  std::function<void()> on_conflict{};
  std::function<void()> on_filter_delayed{};               // because of the binds in flight
  std::function<void(const BindablePod& pod)> on_bound{};  // which has cards
  // The pod is not bound for a reason that does not depend on its node, or that filter sees, too.
  std::function<void(const PodUid& uid)> on_not_refused_by_node{};
};

// What makes a binding safe whatever is lost, late, or left by an earlier process.
struct BindGuards {
  HolderLease& lease;
  PodTouch& touch;
  PreconditionCheck& preconditions;
};

// What all attempts share. On the client's executor, except for the two thread-safe members.
struct BinderContext {
  kube::Client& client;
  Ledger& ledger;
  const VerbOptions& options;
  const CurrentPrices& prices;
  const BindGuards guards;
  const BinderEvents events;
  PodCache pods{
      {.pods = kCachedPodsMax, .bytes = kCachedPodsBytesMax, .pod_bytes = kCachedPodBytesMax}};
  PostedBindings posted{};
  CallbackGuard callbacks{};  // the cache and this are thread-safe
  AwaitedNominations nominations{client.executor(), pods, callbacks};

  void problem(const std::string& sentence) const {
    if (events.on_problem) events.on_problem(sentence);
  }
  // The pod is bound: its annotations replace the claims of its attempts.
  void assume_as_read(const kube::Pod& pod);
};

class BindAttempt : public std::enable_shared_from_this<BindAttempt> {
 public:
  struct Events {
    std::function<void()> on_end;                      // exactly once, after start()
    std::function<void(const BindAnswer&)> on_answer;  // exactly once; it may end the binder
  };
  BindAttempt(BinderContext& context, BindingArgs args, Instant deadline, Events events);

  // Answers with an error at the deadline, whichever step the attempt is in.
  void start_timer();
  // Takes the first step.
  void start();
  bool answered() const { return answered_; }

 private:
  enum class Step : std::uint8_t { kQueued, kRunning, kEnded };

  void take_copy();
  void check(const kube::Pod& pod);
  void assume(BindablePod pod);
  void check_preconditions();
  void touch_large();
  void confirm_lease();
  void post();
  void on_posted(const kube::ApiResult<void>& posted);
  void settle(BindAnswer refusal);
  void conclude(const BindAnswer& refusal, const kube::Pod& pod);
  void try_again(const BindAnswer& refusal, const kube::Pod& pod);

  void end_bound();
  // The API server does not have the binding, and no POST of this attempt can succeed any more: the
  // claim is forgotten.
  void end_not_bound(BindAnswer answer);
  // The same, and the pod has been read, unbound: kube-scheduler tries it again.
  void end_unbound(const BindAnswer& answer);
  // The API server may have the binding: the claim stays until AssumedPodReconciler has settled it.
  void end_unknown(const std::string& error);
  void end(const BindAnswer& answer);

  void expire();
  void answer(const BindAnswer& answer);
  Duration time_left() const;
  // Returns why no POST is sent any more, or nullopt.
  std::optional<BindAnswer> too_late() const;
  std::string subject() const;

  BinderContext& context_;
  const BindingArgs args_;
  const Instant deadline_;
  const Events events_;
  Executor::TimerId timer_ = 0;
  Step step_ = Step::kQueued;
  bool answered_ = false;
  std::optional<BindablePod> pod_;  // the copy that was decided on
  std::optional<ClaimId> claim_;    // none if the pod requests no cards
  Annotations annotations_;         // what the POST carries
  int posts_ = 0;
  bool touched_ = false;  // by touch_large()
};

}  // namespace mgpu::extender
