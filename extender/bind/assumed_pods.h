// Finds the outcome of claims that stay assumed. If it is unknown, the pod is touched until the
// answer shows it, for as long as that takes. A binding that was accepted is read again if the
// watch does not show it. For the binder only, on the client's executor.
#pragma once

#include <cstddef>
#include <vector>

#include "extender/bind/attempt.h"

namespace mgpu::extender {

class AssumedPodReconciler {
 public:
  // `context` outlives the reconciler.
  explicit AssumedPodReconciler(BinderContext& context) : context_(context) {}

  // Reconciles every kReconcileInterval, until the context's callbacks are closed.
  void start();

 private:
  using AssumedClaim = Ledger::AssumedClaim;

  void reconcile();
  bool due(const AssumedClaim& claim) const;
  bool accepted(ClaimId claim) const;
  void settle_next();
  void conclude(const AssumedClaim& claim, const kube::ApiResult<kube::Pod>& pod);
  void conclude_unbound(const AssumedClaim& claim);
  void postpone(ClaimId claim, const std::string& problem);

  BinderContext& context_;
  std::vector<AssumedClaim> waiting_;  // to be settled in this round
  std::size_t in_flight_ = 0;
};

}  // namespace mgpu::extender
