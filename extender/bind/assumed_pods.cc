#include "extender/bind/assumed_pods.h"

#include <unordered_set>
#include <utility>

#include "common/base/check.h"

namespace mgpu::extender {

void AssumedPodReconciler::start() {
  context_.client.executor().after(kReconcileInterval, context_.callbacks.wrap([this] {
    reconcile();
    start();
  }));
}

void AssumedPodReconciler::reconcile() {
  // The API server is slow: the last round is not over.
  if (in_flight_ > 0) return;
  waiting_ = context_.ledger.assumed_before(Instant::max());
  std::unordered_set<ClaimId> assumed;
  for (const AssumedClaim& claim : waiting_) assumed.insert(claim.id);
  context_.posted.erase_if([&](ClaimId claim, const PostedBinding& posted) {
    return !posted.in_progress && !assumed.contains(claim);
  });
  // What was assumed as it was read from a bound pod.
  for (const AssumedClaim& claim : waiting_) {
    if (context_.posted.contains(claim.id)) continue;
    PostedBinding& posted = context_.posted.add(claim.id, claim.uid, {});
    posted.in_progress = false;
    posted.accepted = true;
    posted.settle_at = context_.client.executor().now() + kAcceptedReconcileAfter;
  }
  std::erase_if(waiting_, [&](const AssumedClaim& claim) { return !due(claim); });
  while (in_flight_ < kReconciliationsInFlight && !waiting_.empty()) settle_next();
}

bool AssumedPodReconciler::due(const AssumedClaim& claim) const {
  const PostedBinding& posted = context_.posted.at(claim.id);
  return !posted.in_progress && posted.settle_at <= context_.client.executor().now();
}

bool AssumedPodReconciler::accepted(ClaimId claim) const {
  return context_.posted.contains(claim) && context_.posted.at(claim).accepted;
}

void AssumedPodReconciler::settle_next() {
  AssumedClaim claim = std::move(waiting_.back());
  waiting_.pop_back();
  ++in_flight_;
  MGPU_CHECK(in_flight_ <= kReconciliationsInFlight, "the questions at once are bounded");
  const PodRef pod = claim.pod;
  const bool is_accepted = accepted(claim.id);
  const std::string sent = context_.posted.at(claim.id).resource_version;
  auto done = context_.callbacks.wrap(
      [this, claim = std::move(claim)](const kube::ApiResult<kube::Pod>& read) {
        MGPU_CHECK(in_flight_ > 0, "a question that was asked is answered once");
        --in_flight_;
        conclude(claim, read);
        if (!waiting_.empty()) settle_next();
      });
  if (is_accepted) return context_.client.get_pod(pod, kBindTimeout, std::move(done));
  context_.guards.touch.settle(pod, sent, kBindTimeout, std::move(done));
}

void AssumedPodReconciler::conclude(const AssumedClaim& claim,
                                    const kube::ApiResult<kube::Pod>& pod) {
  if (!pod && pod.error().kind == kube::ApiError::Kind::kNotFound) {
    return context_.ledger.forget(claim.id);
  }
  if (!pod) return postpone(claim.id, pod.error().message);
  // The watch does not show a pod that was bound and finished while it was interrupted.
  if (pod->uid() != claim.uid || pod->finished()) return context_.ledger.forget(claim.id);
  if (pod->node_name.empty()) return conclude_unbound(claim);
  PostedBinding& posted = context_.posted.at(claim.id);
  const bool as_posted =
      binding_state_of(*pod, claim.uid, claim.node, posted.annotations,
                       context_.options.contract) == BindingState::kBoundAsPosted;
  if (!as_posted) return context_.assume_as_read(*pod);
  context_.ledger.bound(claim.id, context_.client.executor().now());
  posted.accepted = true;
  posted.settle_at = context_.client.executor().now() + kAcceptedReconcileAfter;
}

void AssumedPodReconciler::conclude_unbound(const AssumedClaim& claim) {
  if (!accepted(claim.id))
    return context_.ledger.forget_for_now(claim.id, context_.client.executor().now());
  // An accepted binding is missing where etcd was restored. It was read without a touch.
  PostedBinding& posted = context_.posted.at(claim.id);
  posted.accepted = false;
  posted.settle_at = context_.client.executor().now();
}

void AssumedPodReconciler::postpone(ClaimId claim, const std::string& problem) {
  PostedBinding& posted = context_.posted.at(claim);
  posted.settle_at = context_.client.executor().now() + posted.backoff.next();
  context_.problem("the outcome of a bind is not known yet, and its cards stay in use: " + problem);
}

}  // namespace mgpu::extender
