// Finds the outcome of claims that stay assumed: it reads their pods from the API server. For the
// binder only, on the client's executor.
#pragma once

#include <cstddef>
#include <vector>

#include "extender/bind/attempt.h"

namespace mgpu::extender {

class AssumedPodReconciler {
 public:
  // `context` outlives the reconciler.
  explicit AssumedPodReconciler(BinderContext& context) : context_(context) {}

  // Reconciles every kAssumedReconcileAfter, until the context's callbacks are closed.
  void start();

 private:
  void reconcile();
  void read_next();
  void conclude(const Ledger::AssumedClaim& claim, const kube::ApiResult<kube::Pod>& pod);

  BinderContext& context_;
  std::vector<Ledger::AssumedClaim> waiting_;  // to be read in this round
  std::size_t reading_ = 0;
};

}  // namespace mgpu::extender
