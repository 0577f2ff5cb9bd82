#include "extender/ledger/disruption_budgets.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/kube/objects/object_json.h"

namespace mgpu::extender {

DisruptionBudgets::Key DisruptionBudgets::key_of(const kube::PodDisruptionBudget& budget) {
  return {budget.metadata.name_space, budget.metadata.name};
}

kube::Consumer<kube::PodDisruptionBudget> DisruptionBudgets::consumer() {
  using Budget = kube::PodDisruptionBudget;
  return {.read = kube::read_pod_disruption_budget,
          .apply =
              [this](Budget budget) {
                const MutexLock lock(mutex_);
                budgets_.insert_or_assign(key_of(budget), std::move(budget));
              },
          .remove =
              [this](const Budget& budget) {
                const MutexLock lock(mutex_);
                budgets_.erase(key_of(budget));
              },
          .relist =
              [this](std::vector<Budget> budgets, bool complete) {
                const MutexLock lock(mutex_);
                // A missing budget may be one that cannot be read.
                if (complete) budgets_.clear();
                for (Budget& budget : budgets)
                  budgets_.insert_or_assign(key_of(budget), std::move(budget));
              }};
}

std::vector<bool> DisruptionBudgets::violations(const std::vector<PodLabels>& pods) const {
  const MutexLock lock(mutex_);
  std::map<const kube::PodDisruptionBudget*, std::int64_t> spent;
  std::vector<bool> violating;
  violating.reserve(pods.size());
  for (const PodLabels& pod : pods) {
    bool violates = false;
    // Budgets of one namespace are adjacent.
    for (auto it = budgets_.lower_bound(Key(*pod.name_space, "")); it != budgets_.end(); ++it) {
      const kube::PodDisruptionBudget& budget = it->second;
      if (it->first.first != *pod.name_space) break;
      if (!budget.selector || !kube::matches(*budget.selector, *pod.labels)) continue;
      if (++spent[&budget] > budget.disruptions_allowed) violates = true;
    }
    violating.push_back(violates);
  }
  return violating;
}

}  // namespace mgpu::extender
