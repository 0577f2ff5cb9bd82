// Reads the pods of assumed claims without an outcome again. For the binder only; on the client's
// executor.
#pragma once

#include <memory>
#include <vector>

#include "extender/bind/attempt.h"

namespace mgpu::verbs {

class Rechecks : public std::enable_shared_from_this<Rechecks> {
 public:
  explicit Rechecks(std::shared_ptr<BinderCore> core) : core_(std::move(core)) {}

  // Once every limits::kAssumedRecheck, until the binder ends.
  void start();

 private:
  void tick();
  void read_next();
  void on_pod(const ledger::Ledger::InDoubt& claim, const kube::ApiResult<kube::Pod>& pod);
  void conclude(const ledger::Ledger::InDoubt& claim, const kube::Pod& pod);
  void drop_settled();
  bool under_way(ledger::ClaimId id) const;

  const std::shared_ptr<BinderCore> core_;
  std::vector<ledger::Ledger::InDoubt> waiting_;
  std::size_t reading_ = 0;
};

}  // namespace mgpu::verbs
