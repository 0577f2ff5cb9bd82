#include "extender/verbs/budgets.h"

#include <utility>

#include "common/kube/object_json.h"

namespace mgpu::verbs {

DisruptionBudgets::DisruptionBudgets(std::function<void(const std::string&)> on_unreadable)
    : on_unreadable_(std::move(on_unreadable)) {}

void DisruptionBudgets::on_event(const kube::WatchEvent& event) {
  using Kind = kube::WatchEvent::Kind;
  if (event.kind == Kind::kRelistBegin || event.kind == Kind::kRelistEnd) {
    const std::lock_guard lock(mutex_);
    // One that is missing may be the one that cannot be read.
    if (event.kind == Kind::kRelistEnd && unreadable_in_relist_) relisted_.merge(budgets_);
    if (event.kind == Kind::kRelistEnd) budgets_ = std::move(relisted_);
    relisted_.clear();
    unreadable_in_relist_ = false;
    return;
  }
  auto budget = kube::read_pod_disruption_budget(event.object);
  if (!budget) {
    on_unreadable_("a disruption budget cannot be read: " + budget.error().message);
    const std::lock_guard lock(mutex_);
    unreadable_in_relist_ = true;
    return;
  }
  const std::lock_guard lock(mutex_);
  auto& budgets = event.kind == Kind::kRelistObject ? relisted_ : budgets_;
  const Key key{budget->metadata.space, budget->metadata.name};
  event.kind == Kind::kDelete ? void(budgets.erase(key))
                              : void(budgets.insert_or_assign(key, std::move(*budget)));
}

std::vector<bool> DisruptionBudgets::violations(const std::vector<PodLabels>& pods) const {
  const std::lock_guard lock(mutex_);
  std::map<const kube::PodDisruptionBudget*, std::int64_t> spent;
  std::vector<bool> violating;
  violating.reserve(pods.size());
  for (const PodLabels& pod : pods) {
    bool violates = false;
    // Budgets of one namespace stand together.
    for (auto it = budgets_.lower_bound(Key(*pod.space, "")); it != budgets_.end(); ++it) {
      const kube::PodDisruptionBudget& budget = it->second;
      if (it->first.first != *pod.space) break;
      if (!budget.selector || !kube::matches(*budget.selector, *pod.labels)) continue;
      if (++spent[&budget] > budget.disruptions_allowed) violates = true;
    }
    violating.push_back(violates);
  }
  return violating;
}

}  // namespace mgpu::verbs
