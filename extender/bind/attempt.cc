#include "extender/bind/attempt.h"

#include <utility>

#include "common/base/check.h"
#include "extender/bind/limits.h"
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

std::map<std::string, std::vector<CardIndex>> cards_by_container(const GpuRequest& request,
                                                                 const Placement& placement) {
  MGPU_CHECK(request.containers.size() == placement.cards_of.size(), "cards for each container");
  std::map<std::string, std::vector<CardIndex>> cards;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    cards.emplace(request.containers[i].name, placement.cards_of[i]);
  }
  return cards;
}

// Whether the device plugin will read the cards from the annotations that were placed: reads them
// as it does. False, and the pod would start with other cards than the ledger counts.
bool reads_back(const Annotations& annotations, const GpuRequest& request,
                const Placement& placement, const Contract& contract) {
  kube::Pod bound;
  bound.metadata.annotations.insert(annotations.begin(), annotations.end());
  const auto read = read_placement(bound, request, contract);
  return read && *read == placement;
}

}  // namespace

BindAttempt::BindAttempt(std::shared_ptr<BinderCore> core, BindingArgs args, Instant deadline,
                         Handlers handlers)
    : core_(std::move(core)),
      args_(std::move(args)),
      deadline_(deadline),
      handlers_(std::move(handlers)) {}

void BindAttempt::start() {
  MGPU_CHECK(step_ == Step::kWaiting && !answered_, "an attempt starts once");
  const auto pod = core_->pods.take(args_.uid);
  if (pod && pod->ref() == args_.pod) return place(*pod);
  read_pod();
}

void BindAttempt::read_pod() {
  step_ = Step::kReading;
  core_->client.get_pod(
      args_.pod, time_left(),
      core_->callbacks.wrap([self = shared_from_this()](const kube::ApiResult<kube::Pod>& pod) {
        self->on_pod(pod);
      }));
}

void BindAttempt::on_pod(const kube::ApiResult<kube::Pod>& pod) {
  if (answered_) return end({});
  if (pod) return place(*pod);
  const bool gone = pod.error().kind == Kind::kNotFound;
  end({gone ? BindOutcome::kConflict : BindOutcome::kUnavailable, pod.error().message});
}

void BindAttempt::place(const kube::Pod& pod) {
  if (pod.uid() != args_.uid) {
    return end({BindOutcome::kConflict, sentence_of(BindingState::kAnother, pod)});
  }
  auto request = read_pod_request(pod, core_->settings);
  if (!request) return end({BindOutcome::kBadRequest, request.error().message});
  const Contract& contract = core_->settings.contract;
  const bool gpu = !request->request.empty();
  const Annotations mark = gpu ? Annotations{{contract.assumed, "true"}} : Annotations();
  const BindingState standing = standing_of(pod, args_.uid, args_.node, mark, contract);
  if (standing == BindingState::kOurs) return end({});
  if (standing != BindingState::kUnbound) {
    return end({BindOutcome::kConflict, sentence_of(standing, pod)});
  }
  gpu ? assume(pod, *request) : send({});
}

void BindAttempt::assume(const kube::Pod& pod, const PodRequest& request) {
  const Instant now = core_->client.executor().now();
  const auto price_snapshot = core_->settings.price_snapshot();
  const auto answer = core_->ledger.assume(claim_of(pod, args_, request), *request.policy.card, now,
                                           price_snapshot.get());
  if (const auto* reason = std::get_if<Reason>(&answer)) {
    return end(
        {BindOutcome::kUnfit, std::string(sentence(*reason)) + " (node " + args_.node.str() + ")"});
  }
  const auto& assumed = std::get<Assumed>(answer);
  claim_ = assumed.id;
  const auto cards = cards_by_container(request.request, assumed.placement);
  const auto annotations = placement_annotations(core_->settings.contract, cards);
  if (!reads_back(annotations, request.request, assumed.placement, core_->settings.contract)) {
    return end_forgotten(BindOutcome::kBadRequest,
                         "the cards of pod " + to_string(args_.pod) +
                             " cannot be written to annotations so that they are read back the "
                             "same; its containers may have equal names");
  }
  core_->written[*claim_].annotations = annotations;
  send(annotations);
}

void BindAttempt::send(const Annotations& annotations) {
  step_ = Step::kPosting;
  core_->client.bind(
      {args_.pod, args_.uid, args_.node, annotations}, time_left(),
      core_->callbacks.wrap([self = shared_from_this()](const kube::ApiResult<void>& posted) {
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
      return resolve(Uncertainty::kLost, message);
    case Kind::kNotFound:
    case Kind::kRefused:
      return end_forgotten(BindOutcome::kConflict, message);
    case Kind::kUnavailable:
      return end_forgotten(BindOutcome::kUnavailable, message);
  }
}

void BindAttempt::resolve(Uncertainty doubt, std::string message) {
  step_ = Step::kResolving;
  core_->client.get_pod(
      args_.pod, kBindTimeout,
      core_->callbacks.wrap([self = shared_from_this(), doubt,
                             message = std::move(message)](const kube::ApiResult<kube::Pod>& pod) {
        self->on_resolved(doubt, message, pod);
      }));
}

void BindAttempt::on_resolved(Uncertainty doubt, const std::string& message,
                              const kube::ApiResult<kube::Pod>& pod) {
  if (pod) return conclude(doubt, message, *pod);
  if (pod.error().kind == Kind::kNotFound) {
    return end_forgotten(BindOutcome::kConflict, pod.error().message);
  }
  end_in_doubt(message + "; then " + pod.error().message);
}

void BindAttempt::conclude(Uncertainty doubt, const std::string& message, const kube::Pod& pod) {
  const BindingState standing =
      standing_of(pod, args_.uid, args_.node, annotations(), core_->settings.contract);
  switch (standing) {
    case BindingState::kOurs:
      return end_bound();
    case BindingState::kHere:
      // An earlier attempt came through; the watch brings its cards.
      return end_forgotten(BindOutcome::kBound, "");
    case BindingState::kUnbound:
    case BindingState::kEnding:
      // A request that was lost may still be on its way.
      if (doubt == Uncertainty::kLost) return end_in_doubt(message);
      return end_forgotten(BindOutcome::kConflict, message);
    case BindingState::kHereBare:
    case BindingState::kElsewhere:
    case BindingState::kAnother:
      return end_forgotten(BindOutcome::kConflict, sentence_of(standing, pod));
  }
}

void BindAttempt::expire() {
  if (answered_) return;
  const std::string pod = "pod " + to_string(args_.pod) + " to node " + args_.node.str() + ": ";
  const std::string after = " within " + std::to_string(kBindTimeout.count()) + " milliseconds";
  const bool waiting = step_ == Step::kWaiting;
  answer(
      {BindOutcome::kUnavailable,
       pod + (waiting ? "too many binds, its turn did not come" : "the API server did not answer") +
           after});
}

void BindAttempt::end_bound() {
  if (claim_) core_->ledger.bound(*claim_, core_->client.executor().now());
  end({});
}

void BindAttempt::end_forgotten(BindOutcome outcome, std::string error) {
  if (claim_) {
    core_->ledger.forget(*claim_);
    core_->written.erase(*claim_);
  }
  end({outcome, std::move(error)});
}

void BindAttempt::end_in_doubt(std::string error) {
  const std::string sentence = "pod " + to_string(args_.pod) + " to node " + args_.node.str() +
                               ": not known whether it is bound: " + std::move(error);
  if (claim_) core_->problem(sentence);
  end({BindOutcome::kUnavailable, sentence});
}

void BindAttempt::end(BindAnswer last) {
  MGPU_CHECK(step_ != Step::kEnded, "an attempt ends once");
  step_ = Step::kEnded;
  if (claim_) {
    const auto written = core_->written.find(*claim_);
    if (written != core_->written.end()) written->second.under_way = false;
  }
  if (!answered_) answer(last);
  handlers_.on_end();
}

void BindAttempt::answer(const BindAnswer& answer) {
  answered_ = true;
  handlers_.on_answer(answer);
}

Annotations BindAttempt::annotations() const {
  if (!claim_) return {};
  return core_->written.at(*claim_).annotations;
}

Duration BindAttempt::time_left() const {
  // Nothing means the client's own limit, which is longer.
  return std::max(deadline_ - core_->client.executor().now(), Duration(1));
}

}  // namespace mgpu::extender
