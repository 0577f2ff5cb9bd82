// PodDisruptionBudgets, kept equal to the API server by a reflector, asked by preempt.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/kube/objects.h"
#include "common/kube/watcher.h"

namespace mgpu::verbs {

// Thread-safe.
class DisruptionBudgets {
 public:
  // `on_unreadable`: of each that cannot be read, and why. What was known of it stays: budgets only
  // order victims.
  explicit DisruptionBudgets(std::function<void(const std::string&)> on_unreadable =
                                 [](const std::string&) {});
  void on_event(const kube::WatchEvent& event);

  // Whether evicting the pods in this order would violate a budget, each counted after those before
  // it (kubernetes pkg/scheduler/framework/plugins/defaultpreemption, filterPodsWithPDBViolation).
  // An empty selector selects every pod, as the disruption controller reads policy/v1. Pods in
  // status.disruptedPods, whose eviction is under way, are counted once more.
  struct PodLabels {
    const std::string* space;
    const kube::StringMap* labels;
  };
  std::vector<bool> violations(const std::vector<PodLabels>& pods) const;

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  mutable std::mutex mutex_;
  std::map<Key, kube::PodDisruptionBudget> budgets_;   // protected by mutex_
  std::map<Key, kube::PodDisruptionBudget> relisted_;  // protected by mutex_
  bool unreadable_in_relist_ = false;                  // protected by mutex_
  const std::function<void(const std::string&)> on_unreadable_;
};

}  // namespace mgpu::verbs
