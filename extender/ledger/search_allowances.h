// How many steps (placement/limits.h) decisions about pods of several containers may take, by
// namespace. Each decision has a bound, but a tenant may create many pods for which it is reached,
// and kube-scheduler, which filters one pod at a time, tries them again with each change of the
// cluster. So a namespace earns kSearchStepsPerMs and keeps at most kSearchStepsSaved of them.
// Where it has none left, a decision has kSearchStepsLeast, which suffice for the nodes of a pod
// whose containers are placed without backtracking.
//
// Part of the ledger; used under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/executor.h"

namespace mgpu::extender {

class SearchAllowances {
 public:
  // Returns how many of `most` steps a decision about a pod of the namespace may take now.
  std::uint32_t of(const std::string& name_space, std::uint32_t most, Instant now);
  // A decision took these; `limited`: it had fewer than its bound, and used all of them.
  void charge(const std::string& name_space, std::uint32_t spent, bool limited, Instant now);

  // All steps that were charged, and how many decisions ran out of steps because of the allowance.
  std::uint64_t spent() const { return spent_; }
  std::uint64_t limited() const { return limited_; }

 private:
  struct Account {
    std::uint64_t left = 0;
    Instant at{};
  };
  static std::uint64_t left(const Account& account, Instant now);
  std::uint64_t left(const std::string& name_space, Instant now) const;

  // At most kSearchAccountsMax, of the namespaces that have the fewest steps left.
  std::map<std::string, Account> accounts_;
  std::uint64_t spent_ = 0;
  std::uint64_t limited_ = 0;
};

}  // namespace mgpu::extender
