// One bind, from its turn in the queue to its answer; binder.h has the diagram. For the binder
// only, on the client's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "extender/bind/binding_state.h"
#include "extender/bind/limits.h"
#include "extender/bind/pod_cache.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/pod_request.h"
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
  std::string error;  // one sentence; empty where the pod is bound
};

struct BinderEvents {
  std::function<void(BindOutcome outcome)> on_outcome;
  std::function<void(const std::string& problem)> on_problem;  // for the log
};

// The annotations that the POST of an assumed claim carries.
struct PostedBinding {
  Annotations annotations;
  bool in_progress = true;  // the attempt has not ended
};

// What all attempts share. On the client's executor, except for the two thread-safe members.
struct BinderContext {
  kube::Client& client;
  Ledger& ledger;
  const Settings settings;
  const BinderEvents events;
  PodCache pods{kCachedPodsMax};  // thread-safe
  std::unordered_map<ClaimId, PostedBinding> posted{};
  CallbackGuard callbacks{};  // thread-safe

  void problem(const std::string& sentence) const {
    if (events.on_problem) events.on_problem(sentence);
  }
};

class BindAttempt : public std::enable_shared_from_this<BindAttempt> {
 public:
  struct Handlers {
    std::function<void()> on_end;                      // exactly once, after start()
    std::function<void(const BindAnswer&)> on_answer;  // exactly once; it may end the binder
  };
  BindAttempt(BinderContext& context, BindingArgs args, Instant deadline, Handlers handlers);

  // Answers with an error at the deadline, whichever step the attempt is in.
  void start_timer();
  // Takes the first step.
  void start();
  bool answered() const { return answered_; }

 private:
  enum class Step : std::uint8_t { kQueued, kReading, kPosting, kResolving, kEnded };
  // Why the pod is read after the POST.
  enum class Uncertainty : std::uint8_t { kConflict, kNoAnswer };

  void check(const kube::Pod& pod);
  void assume(const kube::Pod& pod, const PodRequest& request);
  void post(Annotations annotations);
  void on_posted(const kube::ApiResult<void>& posted);
  void resolve(Uncertainty uncertainty, std::string message);
  void conclude(Uncertainty uncertainty, const std::string& message, const kube::Pod& pod);

  void end_bound();
  // The API server does not have the binding: the claim is forgotten.
  void end_not_bound(BindOutcome outcome, std::string error);
  // The API server may have the binding: the claim stays until AssumedPodReconciler has read the
  // pod.
  void end_unknown(std::string error);
  void end(const BindAnswer& answer);

  void expire();
  void answer(const BindAnswer& answer);
  Duration time_left() const;

  BinderContext& context_;
  const BindingArgs args_;
  const Instant deadline_;
  const Handlers handlers_;
  Executor::TimerId timer_ = 0;
  Step step_ = Step::kQueued;
  bool answered_ = false;
  std::optional<ClaimId> claim_;  // none for a non-GPU pod
  Annotations annotations_;       // what the POST carries
};

}  // namespace mgpu::extender
