// PodDisruptionBudgets, kept equal to the API server by a reflector, asked by preempt.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/objects.h"
#include "common/kube/reflector.h"

namespace mgpu::extender {

// Thread-safe.
class DisruptionBudgets {
 public:
  // Of one that cannot be read, what was known stays: budgets only order victims. The budgets
  // outlive the consumer.
  kube::Consumer<kube::PodDisruptionBudget> consumer();

  // Whether evicting the pods in this order would violate a budget, each counted after those before
  // it (kubernetes pkg/scheduler/framework/plugins/defaultpreemption, filterPodsWithPDBViolation).
  // An empty selector selects every pod, as the disruption controller reads policy/v1. Pods in
  // status.disruptedPods, whose eviction is under way, are counted once more.
  struct PodLabels {
    const std::string* name_space;
    const kube::StringMap* labels;
  };
  std::vector<bool> violations(const std::vector<PodLabels>& pods) const;

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  static Key key_of(const kube::PodDisruptionBudget& budget);

  mutable Mutex mutex_;
  std::map<Key, kube::PodDisruptionBudget> budgets_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
