// One bind, from its turn to its end (the drawing in binder.h). For the binder only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "extender/bind/binder.h"
#include "extender/bind/binding_state.h"
#include "extender/bind/pod_cache.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

// What the POST of an assumed claim wrote, or would have.
struct PostedBinding {
  Annotations annotations;
  bool under_way = true;  // its attempt has not ended
};

// What attempts and rechecks share. On the client's executor, but for the two thread-safe members.
struct BinderCore {
  kube::Client& client;
  Ledger& ledger;
  const Settings settings;
  BinderEvents events;
  CallbackGuard callbacks;  // thread-safe
  PodCache pods;            // thread-safe
  std::unordered_map<ClaimId, PostedBinding> written;

  void problem(const std::string& sentence) const {
    if (events.on_problem) events.on_problem(sentence);
  }
};

struct BindAnswer {
  BindOutcome outcome = BindOutcome::kBound;
  std::string error;
};

class BindAttempt : public std::enable_shared_from_this<BindAttempt> {
 public:
  struct Handlers {
    std::function<void(const BindAnswer&)> on_answer;  // exactly once
    std::function<void()> on_end;                      // exactly once, after start()
  };
  BindAttempt(std::shared_ptr<BinderCore> core, BindingArgs args, Instant deadline,
              Handlers handlers);

  // Its turn has come.
  void start();
  // The deadline has passed, wherever it stands.
  void expire();
  bool answered() const { return answered_; }

 private:
  enum class Step { kWaiting, kReading, kPosting, kResolving, kEnded };
  // Why the pod is read after the POST.
  enum class Uncertainty { kConflict, kLost };

  void read_pod();
  void on_pod(const kube::ApiResult<kube::Pod>& pod);
  void place(const kube::Pod& pod);
  void assume(const kube::Pod& pod, const PodRequest& request);
  void send(const Annotations& annotations);
  void on_posted(const kube::ApiResult<void>& posted);
  void resolve(Uncertainty doubt, std::string message);
  void on_resolved(Uncertainty doubt, const std::string& message,
                   const kube::ApiResult<kube::Pod>& pod);
  void conclude(Uncertainty doubt, const std::string& message, const kube::Pod& pod);

  void end_bound();
  // The claim is not in force.
  void end_forgotten(BindOutcome outcome, std::string error);
  // It may be: the recheck will tell.
  void end_in_doubt(std::string error);
  void end(BindAnswer answer);
  void answer(const BindAnswer& answer);

  Annotations annotations() const;
  Duration time_left() const;

  const std::shared_ptr<BinderCore> core_;
  const BindingArgs args_;
  const Instant deadline_;
  Handlers handlers_;
  Step step_ = Step::kWaiting;
  bool answered_ = false;
  std::optional<ClaimId> claim_;  // none for a pod that asks for no cards
};

}  // namespace mgpu::extender
