// Reads the pods of assumed claims without an outcome again. For the binder only; on the client's
// executor.
#pragma once

#include <memory>
#include <vector>

#include "extender/bind/attempt.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {

class AssumedPodReconciler : public std::enable_shared_from_this<AssumedPodReconciler> {
 public:
  explicit AssumedPodReconciler(std::shared_ptr<BinderCore> core) : core_(std::move(core)) {}

  // Once every kAssumedReconcileAfter, until the binder ends.
  void start();

 private:
  void tick();
  void read_next();
  void on_pod(const Ledger::InDoubt& claim, const kube::ApiResult<kube::Pod>& pod);
  void conclude(const Ledger::InDoubt& claim, const kube::Pod& pod);
  void drop_settled();
  bool under_way(ClaimId id) const;

  const std::shared_ptr<BinderCore> core_;
  std::vector<Ledger::InDoubt> waiting_;
  std::size_t reading_ = 0;
};

}  // namespace mgpu::extender
