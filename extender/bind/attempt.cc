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

Claim claim_of(const kube::Pod& pod, const BindingArgs& args, const PodRequest& request) {
  Claim claim;
  claim.pod = args.pod;
  claim.uid = args.uid;
  claim.node = args.node;
  claim.request = request.request;
  claim.host = request.host;
  claim.priority = pod.priority;
  claim.start_time = pod.start_time;
  claim.labels = pod.metadata.labels;
  return claim;
}

// Nothing where the device plugin would read other cards from the annotations than the ledger
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

}  // namespace

BindAttempt::BindAttempt(BinderContext& context, BindingArgs args, Instant deadline,
                         Handlers handlers)
    : context_(context),
      args_(std::move(args)),
      deadline_(deadline),
      handlers_(std::move(handlers)) {}

// --- the steps, in their order -------------------------------------------------------------------

void BindAttempt::start() {
  MGPU_CHECK(step_ == Step::kQueued && !answered_, "an attempt starts once");
  const auto cached = context_.pods.take(args_.uid);
  if (cached && cached->ref() == args_.pod) return check(*cached);
  step_ = Step::kReading;
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
  const auto request = read_pod_request(pod, context_.settings);
  if (!request) return end({BindOutcome::kBadRequest, request.error().message});
  const bool gpu = !request->request.empty();
  const Contract& contract = context_.settings.contract;
  const Annotations mark = gpu ? Annotations{{contract.assumed, "true"}} : Annotations();
  const BindingState state = binding_state_of(pod, args_.uid, args_.node, mark, contract);
  if (state == BindingState::kBoundAsPosted) return end({});
  if (state != BindingState::kUnbound) {
    return end({BindOutcome::kConflict, sentence_of(state, pod)});
  }
  gpu ? assume(pod, *request) : post({});
}

void BindAttempt::assume(const kube::Pod& pod, const PodRequest& request) {
  const auto price_snapshot = context_.settings.price_snapshot();
  const auto answer =
      context_.ledger.assume(claim_of(pod, args_, request), *request.policy.card,
                             context_.client.executor().now(), price_snapshot.get());
  if (const auto* reason = std::get_if<Reason>(&answer)) {
    return end(
        {BindOutcome::kUnfit, fmt::format("{} (node {})", sentence(*reason), args_.node.str())});
  }
  const auto& assumed = std::get<Assumed>(answer);
  claim_ = assumed.id;
  auto annotations = annotations_of(request.request, assumed.placement, context_.settings.contract);
  if (!annotations) {
    return end_not_bound(
        BindOutcome::kBadRequest,
        fmt::format("the cards of pod {} cannot be written to annotations so that they are read "
                    "back the same; its containers may have equal names",
                    to_string(args_.pod)));
  }
  context_.posted[*claim_].annotations = *annotations;
  post(*std::move(annotations));
}

void BindAttempt::post(Annotations annotations) {
  step_ = Step::kPosting;
  annotations_ = std::move(annotations);
  context_.client.bind(
      {args_.pod, args_.uid, args_.node, annotations_}, time_left(),
      context_.callbacks.wrap([self = shared_from_this()](const kube::ApiResult<void>& posted) {
        self->on_posted(posted);
      }));
}

void BindAttempt::on_posted(const kube::ApiResult<void>& posted) {
  if (posted) return end_bound();
  const std::string& message = posted.error().message;
  switch (posted.error().kind) {
    case Kind::kConflict:
      return resolve(Uncertainty::kConflict, message);
    case Kind::kUnknown:
      return resolve(Uncertainty::kNoAnswer, message);
    case Kind::kNotFound:
    case Kind::kRefused:
      return end_not_bound(BindOutcome::kConflict, message);
    case Kind::kUnavailable:
      return end_not_bound(BindOutcome::kUnavailable, message);
  }
}

void BindAttempt::resolve(Uncertainty uncertainty, std::string message) {
  step_ = Step::kResolving;
  context_.client.get_pod(
      args_.pod, kBindTimeout,
      context_.callbacks.wrap(
          [self = shared_from_this(), uncertainty,
           message = std::move(message)](const kube::ApiResult<kube::Pod>& pod) {
            if (pod) return self->conclude(uncertainty, message, *pod);
            if (pod.error().kind == Kind::kNotFound) {
              return self->end_not_bound(BindOutcome::kConflict, pod.error().message);
            }
            self->end_unknown(message + "; then " + pod.error().message);
          }));
}

void BindAttempt::conclude(Uncertainty uncertainty, const std::string& message,
                           const kube::Pod& pod) {
  const BindingState state =
      binding_state_of(pod, args_.uid, args_.node, annotations_, context_.settings.contract);
  switch (state) {
    case BindingState::kBoundAsPosted:
      return end_bound();
    case BindingState::kBoundWithOtherCards:
      // An earlier attempt has succeeded; the watch brings its cards.
      return end_not_bound(BindOutcome::kBound, "");
    case BindingState::kUnbound:
    case BindingState::kTerminating:
      // A POST without an answer may still reach the API server.
      if (uncertainty == Uncertainty::kNoAnswer) return end_unknown(message);
      return end_not_bound(BindOutcome::kConflict, message);
    case BindingState::kBoundWithoutCards:
    case BindingState::kBoundElsewhere:
    case BindingState::kAnotherPod:
      return end_not_bound(BindOutcome::kConflict, sentence_of(state, pod));
  }
}

// --- the end and the answer ----------------------------------------------------------------------

void BindAttempt::end_bound() {
  if (claim_) context_.ledger.bound(*claim_, context_.client.executor().now());
  end({});
}

void BindAttempt::end_not_bound(BindOutcome outcome, std::string error) {
  if (claim_) {
    context_.ledger.forget(*claim_);
    context_.posted.erase(*claim_);
  }
  end({outcome, std::move(error)});
}

void BindAttempt::end_unknown(std::string error) {
  std::string sentence = fmt::format("pod {} to node {}: not known whether it is bound: {}",
                                     to_string(args_.pod), args_.node.str(), error);
  if (claim_) context_.problem(sentence);
  end({BindOutcome::kUnavailable, std::move(sentence)});
}

// The answer comes last, because it may end the binder.
void BindAttempt::end(const BindAnswer& last) {
  MGPU_CHECK(step_ != Step::kEnded, "an attempt ends once");
  step_ = Step::kEnded;
  if (claim_) {
    const auto posted = context_.posted.find(*claim_);
    if (posted != context_.posted.end()) posted->second.in_progress = false;
  }
  handlers_.on_end();
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
       fmt::format("pod {} to node {}: {} within {} milliseconds", to_string(args_.pod),
                   args_.node.str(),
                   step_ == Step::kQueued ? "too many binds are queued, and this one did not start"
                                          : "the API server did not answer",
                   kBindTimeout.count())});
}

void BindAttempt::answer(const BindAnswer& answer) {
  answered_ = true;
  context_.client.executor().cancel(timer_);
  handlers_.on_answer(answer);
}

// At least a millisecond: zero means the timeout of the client, which is longer.
Duration BindAttempt::time_left() const {
  return std::max(deadline_ - context_.client.executor().now(), Duration(1));
}

}  // namespace mgpu::extender
