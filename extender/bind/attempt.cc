#include "extender/bind/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "extender/placement/reason.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

Claim claim_of(const BindablePod& pod, const NodeName& node) {
  Claim claim;
  claim.pod = pod.ref;
  claim.uid = pod.uid;
  claim.node = node;
  claim.request = pod.request.request;
  claim.resources = pod.request.resources;
  claim.priority = pod.priority;
  claim.start_time = pod.start_time;
  claim.labels = pod.labels;
  claim.group = pod.request.pod.group;
  return claim;
}

// Nothing if the device plugin would read other cards from the annotations than the ledger
// counts.
std::optional<Annotations> annotations_of(const GpuRequest& request, const Placement& placement,
                                          const Contract& contract) {
  MGPU_CHECK(request.containers.size() == placement.cards_of.size(), "cards for each container");
  std::map<std::string, std::vector<CardIndex>> cards;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    cards.emplace(request.containers[i].name, placement.cards_of[i]);
  }
  Annotations annotations = placement_annotations(contract, cards);
  kube::Pod bound;
  bound.metadata.annotations.insert(annotations.begin(), annotations.end());
  const auto read = read_placement(bound, request, contract);
  if (!read || *read != placement) return std::nullopt;
  return annotations;
}

// The API server names the uid that it has, which the caller of bind may not know.
std::string without_uids(const std::string& message) {
  const std::size_t uids = message.find("UID in precondition");
  return uids == std::string::npos ? message : message.substr(0, uids) + "the uid differs";
}

}  // namespace

void BinderContext::assume_as_read(const kube::Pod& pod) {
  auto claim = extender::claim_of(pod, options.contract);
  if (claim) ledger.assume_bound(*std::move(claim), client.executor().now());
}

BindAttempt::BindAttempt(BinderContext& context, BindingArgs args, Instant deadline, Events events)
    : context_(context), args_(std::move(args)), deadline_(deadline), events_(std::move(events)) {}

// --- the steps, in their order -------------------------------------------------------------------

void BindAttempt::start() {
  MGPU_CHECK(step_ == Step::kQueued && !answered_, "an attempt starts once");
  step_ = Step::kRunning;
  context_.nominations.wait(args_.uid, args_.node, [self = shared_from_this()] {
    // The deadline may have passed while it waited.
    self->answered_ ? self->end({}) : self->take_copy();
  });
}

// A binding by a copy from before the nomination would be refused, which costs more than a read.
void BindAttempt::take_copy() {
  const bool current = !context_.nominations.awaits(args_.uid, args_.node);
  auto kept = context_.pods.take(args_.uid);
  if (kept && current && kept->ref == args_.pod) return assume(*std::move(kept));
  context_.client.get_pod(
      args_.pod, time_left(),
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<kube::Pod>& pod) {
        if (self->answered_) return self->end({});
        if (pod) return self->check(*pod);
        const bool deleted = pod.error().kind == Kind::kNotFound;
        self->end(
            {deleted ? BindOutcome::kConflict : BindOutcome::kUnavailable, pod.error().message});
      }));
}

void BindAttempt::check(const kube::Pod& pod) {
  if (pod.uid() != args_.uid) {
    return end({BindOutcome::kConflict, sentence_of(BindingState::kAnotherPod, pod)});
  }
  auto bindable = read_bindable_pod(pod, context_.options);
  if (!bindable) return end({BindOutcome::kBadRequest, bindable.error().message});
  const Contract& contract = context_.options.contract;
  const bool gpu = !bindable->request.request.empty();
  const Annotations mark = gpu ? Annotations{{contract.assumed, "true"}} : Annotations();
  const BindingState state = binding_state_of(pod, args_.uid, args_.node, mark, contract);
  // kube-scheduler repeats a bind whose answer it did not get.
  if (state == BindingState::kBoundAsPosted) {
    context_.assume_as_read(pod);
    return end({});
  }
  if (state != BindingState::kUnbound) {
    return end({BindOutcome::kConflict, sentence_of(state, pod)});
  }
  assume(*std::move(bindable));
}

void BindAttempt::assume(BindablePod pod) {
  if (const auto late = too_late()) return end(*late);
  pod_ = std::move(pod);
  const PodRequest& request = pod_->request;
  if (request.request.empty()) return check_preconditions();
  if (context_.posted.has_unsettled(args_.uid)) {
    return end({BindOutcome::kUnavailable,
                fmt::format("{}: the outcome of an earlier binding is not known yet", subject())});
  }
  const auto price_snapshot = context_.prices.current();
  const auto answer =
      context_.ledger.assume(claim_of(*pod_, args_.node), *request.policy.card,
                             context_.client.executor().now(), price_snapshot.get());
  if (const auto* reason = std::get_if<Reason>(&answer)) {
    return end({BindOutcome::kUnfit,
                fmt::format("{} (node {})", sentence(*reason, request.request), args_.node.str())});
  }
  const auto& assumed = std::get<Assumed>(answer);
  claim_ = assumed.id;
  auto annotations = annotations_of(request.request, assumed.placement, context_.options.contract);
  if (!annotations) {
    return end_not_bound(
        {BindOutcome::kBadRequest,
         fmt::format("the cards of pod {} cannot be written to annotations so that they are read "
                     "back the same; its containers may have equal names",
                     to_string(args_.pod))});
  }
  annotations_ = *std::move(annotations);
  context_.posted.add(*claim_, args_.uid, {.annotations = annotations_});
  check_preconditions();
}

// The start sequence has checked this, unless it found no pod that gave a clear answer.
void BindAttempt::check_preconditions() {
  if (context_.guards.preconditions.enforced()) return touch_large();
  context_.guards.preconditions.run(
      args_.pod, args_.node,
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<void>& refused) {
        if (refused) return self->touch_large();
        const bool deleted = refused.error().kind == Kind::kNotFound;
        self->end_not_bound({deleted ? BindOutcome::kConflict : BindOutcome::kUnavailable,
                             refused.error().message});
      }));
}

// See PodTouch::settle().
void BindAttempt::touch_large() {
  if (pod_->json_bytes < kTouchedFirstBytes || posts_ > 0 || touched_) return confirm_lease();
  touched_ = true;
  context_.guards.touch.touch(
      args_.pod, time_left(),
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<kube::Pod>& pod) {
        if (pod) return self->conclude({BindOutcome::kConflict, "the pod has changed"}, *pod);
        const bool passing =
            pod.error().kind == Kind::kUnknown || pod.error().kind == Kind::kUnavailable;
        self->end_not_bound(
            {passing ? BindOutcome::kUnavailable : BindOutcome::kConflict, pod.error().message});
      }));
}

// The Lease is read after the copy of the pod. So a process that takes the Lease later finds either
// the effect of this POST, or a pod whose resourceVersion it can change before the POST arrives.
void BindAttempt::confirm_lease() {
  context_.guards.lease.confirm(
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<void>& held) {
        if (!held) return self->end_not_bound({BindOutcome::kUnavailable, held.error().message});
        self->post();
      }));
}

void BindAttempt::post() {
  if (const auto late = too_late()) return end_not_bound(*late);
  ++posts_;
  if (claim_) context_.posted.at(*claim_).resource_version = pod_->resource_version;
  context_.client.bind(
      {args_.pod, args_.uid, args_.node, annotations_, pod_->resource_version}, time_left(),
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<void>& posted) {
        self->on_posted(posted);
      }));
}

void BindAttempt::on_posted(const kube::ApiResult<void>& posted) {
  if (posted) return end_bound();
  const std::string message = without_uids(posted.error().message);
  switch (posted.error().kind) {
    case Kind::kConflict:
      if (context_.events.on_conflict) context_.events.on_conflict();
      return settle({BindOutcome::kConflict, message});
    case Kind::kUnknown:
      return settle({BindOutcome::kUnavailable, message});
    case Kind::kNotFound:
    case Kind::kRefused:
    case Kind::kTooLarge:
      return end_not_bound({BindOutcome::kConflict, message});
    case Kind::kUnavailable:
      return end_not_bound({BindOutcome::kUnavailable, message});
  }
}

void BindAttempt::settle(BindAnswer refusal) {
  context_.guards.touch.settle(
      args_.pod, pod_->resource_version, kBindTimeout,
      context_.callbacks.wrap([self = shared_from_this(), refusal = std::move(refusal)](
                                  const kube::ApiResult<kube::Pod>& pod) {
        if (pod) return self->conclude(refusal, *pod);
        if (pod.error().kind == Kind::kNotFound) {
          return self->end_not_bound({BindOutcome::kConflict, pod.error().message});
        }
        self->end_unknown(fmt::format("{}; then {}", refusal.error, pod.error().message));
      }));
}

// The pod as the touch has left it: where it is unbound, no POST of before can bind it any more.
void BindAttempt::conclude(const BindAnswer& refusal, const kube::Pod& pod) {
  const BindingState state =
      binding_state_of(pod, args_.uid, args_.node, annotations_, context_.options.contract);
  switch (state) {
    case BindingState::kBoundAsPosted:
      return end_bound();
    case BindingState::kBoundWithOtherCards:
      context_.assume_as_read(pod);
      return end_not_bound({});
    case BindingState::kBoundWithoutCards:
    case BindingState::kBoundElsewhere:
      context_.assume_as_read(pod);
      return end_not_bound({BindOutcome::kConflict, sentence_of(state, pod)});
    case BindingState::kUnbound:
      return try_again(refusal, pod);
    case BindingState::kTerminating:
    case BindingState::kAnotherPod:
      return end_not_bound({BindOutcome::kConflict, sentence_of(state, pod)});
  }
}

void BindAttempt::try_again(const BindAnswer& refusal, const kube::Pod& pod) {
  if (const auto late = too_late()) return end_unbound(posts_ > 0 ? refusal : *late);
  if (posts_ >= kBindPostsMax) return end_unbound(refusal);
  // It has grown, and perhaps could not be touched: the next attempt touches it first.
  const bool untouched = posts_ > 0 && !touched_ && pod.json_bytes >= kTouchedFirstBytes;
  if (untouched) return end_unbound(refusal);
  auto bindable = read_bindable_pod(pod, context_.options);
  if (!bindable) return end_not_bound({BindOutcome::kBadRequest, bindable.error().message});
  if (same_request(*pod_, *bindable)) {
    pod_ = *std::move(bindable);
    return confirm_lease();
  }
  if (claim_) context_.ledger.forget(*claim_);
  if (claim_) context_.posted.erase(*claim_);
  claim_.reset();
  annotations_.clear();
  assume(*std::move(bindable));
}

// --- the end and the answer ----------------------------------------------------------------------

void BindAttempt::end_bound() {
  if (claim_) {
    context_.ledger.bound(*claim_, context_.client.executor().now());
    PostedBinding& posted = context_.posted.at(*claim_);
    posted.accepted = true;
    posted.settle_at = context_.client.executor().now() + kAcceptedReconcileAfter;
    if (context_.events.on_bound) context_.events.on_bound(*pod_);
  }
  end({});
}

void BindAttempt::end_unbound(const BindAnswer& answer) {
  if (claim_) context_.ledger.forget_for_now(*claim_, context_.client.executor().now());
  end_not_bound(answer);
}

void BindAttempt::end_not_bound(BindAnswer answer) {
  if (claim_) {
    if (answer.outcome == BindOutcome::kUnavailable) {
      context_.ledger.forget_for_now(*claim_, context_.client.executor().now());
    } else {
      context_.ledger.forget(*claim_);
    }
    context_.posted.erase(*claim_);
  }
  end(answer);
}

void BindAttempt::end_unknown(const std::string& error) {
  std::string sentence = fmt::format("{}: not known whether it is bound: {}", subject(), error);
  if (claim_) {
    context_.problem(sentence);
    context_.posted.at(*claim_).settle_at = context_.client.executor().now() + kTouchBackoffFirst;
  }
  end({BindOutcome::kUnavailable, std::move(sentence)});
}

// The answer comes last, because it may end the binder.
void BindAttempt::end(const BindAnswer& last) {
  MGPU_CHECK(step_ != Step::kEnded, "an attempt ends once");
  step_ = Step::kEnded;
  if (claim_ && context_.posted.contains(*claim_)) {
    context_.posted.at(*claim_).in_progress = false;
  }
  events_.on_end();
  if (!answered_) answer(last);
}

void BindAttempt::start_timer() {
  timer_ = context_.client.executor().after(
      deadline_ - context_.client.executor().now(),
      context_.callbacks.wrap([self = shared_from_this()] { self->expire(); }));
}

void BindAttempt::expire() {
  if (answered_) return;
  answer(
      {BindOutcome::kUnavailable,
       fmt::format("{}: {} within {} milliseconds", subject(),
                   step_ == Step::kQueued ? "too many binds are queued, and this one did not start"
                                          : "the API server did not answer",
                   kBindTimeout.count())});
}

void BindAttempt::answer(const BindAnswer& answer) {
  answered_ = true;
  context_.client.executor().cancel(timer_);
  events_.on_answer(answer);
}

// At least a millisecond: zero means the timeout of the client, which is longer.
Duration BindAttempt::time_left() const {
  return std::max(deadline_ - context_.client.executor().now(), Duration(1));
}

std::optional<BindAnswer> BindAttempt::too_late() const {
  if (!answered_ && time_left() >= kBindPostTimeMin) return std::nullopt;
  return BindAnswer{BindOutcome::kUnavailable,
                    fmt::format("{}: {} of {} milliseconds are left, too few to send the binding",
                                subject(), time_left().count(), kBindTimeout.count())};
}

std::string BindAttempt::subject() const {
  return fmt::format("pod {} to node {}", to_string(args_.pod), args_.node.str());
}

}  // namespace mgpu::extender
