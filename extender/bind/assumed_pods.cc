#include "extender/bind/assumed_pods.h"

#include <unordered_set>
#include <utility>

#include "extender/bind/limits.h"

namespace mgpu::extender {

void AssumedPodReconciler::start() {
  core_->client.executor().after(kAssumedReconcileAfter,
                                 core_->callbacks.wrap([self = shared_from_this()] {
                                   self->tick();
                                   self->start();
                                 }));
}

void AssumedPodReconciler::tick() {
  drop_settled();
  // A slow API server: what is being read is not asked for again.
  if (reading_ > 0) return;
  const Instant now = core_->client.executor().now();
  waiting_ = core_->ledger.assumed_before(now - kAssumedReconcileAfter);
  std::erase_if(waiting_, [&](const auto& claim) { return under_way(claim.id); });
  while (reading_ < kReconciliationsInFlight && !waiting_.empty()) read_next();
}

void AssumedPodReconciler::read_next() {
  Ledger::InDoubt claim = std::move(waiting_.back());
  waiting_.pop_back();
  ++reading_;
  const PodRef pod = claim.pod;
  core_->client.get_pod(pod, kBindTimeout,
                        core_->callbacks.wrap([self = shared_from_this(), claim = std::move(claim)](
                                                  const kube::ApiResult<kube::Pod>& read) {
                          self->on_pod(claim, read);
                        }));
}

void AssumedPodReconciler::on_pod(const Ledger::InDoubt& claim,
                                  const kube::ApiResult<kube::Pod>& pod) {
  --reading_;
  if (pod) {
    conclude(claim, *pod);
  } else if (pod.error().kind == kube::ApiError::Kind::kNotFound) {
    core_->ledger.forget(claim.id);
  } else {
    core_->problem("reading an assumed pod again: " + pod.error().message);
  }
  if (!waiting_.empty()) read_next();
}

void AssumedPodReconciler::conclude(const Ledger::InDoubt& claim, const kube::Pod& pod) {
  const auto written = core_->written.find(claim.id);
  const Annotations& annotations =
      written == core_->written.end() ? Annotations() : written->second.annotations;
  const BindingState standing =
      standing_of(pod, claim.uid, claim.node, annotations, core_->settings.contract);
  // A pod that runs out where it stands holds its cards until the watch says otherwise.
  if (standing == BindingState::kOurs) {
    return core_->ledger.bound(claim.id, core_->client.executor().now());
  }
  core_->ledger.forget(claim.id);
}

void AssumedPodReconciler::drop_settled() {
  std::unordered_set<ClaimId> assumed;
  for (const auto& claim : core_->ledger.assumed_before(Instant::max())) assumed.insert(claim.id);
  std::erase_if(core_->written, [&](const auto& written) {
    return !written.second.under_way && !assumed.contains(written.first);
  });
}

bool AssumedPodReconciler::under_way(ClaimId id) const {
  const auto written = core_->written.find(id);
  return written != core_->written.end() && written->second.under_way;
}

}  // namespace mgpu::extender
