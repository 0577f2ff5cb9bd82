#include "extender/bind/assumed_pods.h"

#include <unordered_set>
#include <utility>

namespace mgpu::extender {

void AssumedPodReconciler::start() {
  context_.client.executor().after(kAssumedReconcileAfter, context_.callbacks.wrap([this] {
    reconcile();
    start();
  }));
}

void AssumedPodReconciler::reconcile() {
  std::unordered_set<ClaimId> assumed;
  for (const auto& claim : context_.ledger.assumed_before(Instant::max())) assumed.insert(claim.id);
  std::erase_if(context_.posted, [&](const auto& posted) {
    return !posted.second.in_progress && !assumed.contains(posted.first);
  });
  // The API server is slow: the last round is not over.
  if (reading_ > 0) return;
  const Instant now = context_.client.executor().now();
  waiting_ = context_.ledger.assumed_before(now - kAssumedReconcileAfter);
  std::erase_if(waiting_, [&](const auto& claim) {
    const auto posted = context_.posted.find(claim.id);
    return posted != context_.posted.end() && posted->second.in_progress;
  });
  while (reading_ < kReconciliationsInFlight && !waiting_.empty()) read_next();
}

void AssumedPodReconciler::read_next() {
  Ledger::AssumedClaim claim = std::move(waiting_.back());
  waiting_.pop_back();
  ++reading_;
  const PodRef pod = claim.pod;
  context_.client.get_pod(pod, kBindTimeout,
                          context_.callbacks.wrap([this, claim = std::move(claim)](
                                                      const kube::ApiResult<kube::Pod>& read) {
                            --reading_;
                            conclude(claim, read);
                            if (!waiting_.empty()) read_next();
                          }));
}

void AssumedPodReconciler::conclude(const Ledger::AssumedClaim& claim,
                                    const kube::ApiResult<kube::Pod>& pod) {
  if (!pod && pod.error().kind != kube::ApiError::Kind::kNotFound) {
    return context_.problem("reading an assumed pod again: " + pod.error().message);
  }
  if (!pod) return context_.ledger.forget(claim.id);
  const auto posted = context_.posted.find(claim.id);
  const BindingState state =
      binding_state_of(*pod, claim.uid, claim.node,
                       posted == context_.posted.end() ? Annotations() : posted->second.annotations,
                       context_.settings.contract);
  if (state != BindingState::kBoundAsPosted) return context_.ledger.forget(claim.id);
  // A bound pod that has finished holds its cards until the watch shows it.
  context_.ledger.bound(claim.id, context_.client.executor().now());
}

}  // namespace mgpu::extender
