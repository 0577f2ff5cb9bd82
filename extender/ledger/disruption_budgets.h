// The PodDisruptionBudgets of the cluster, which preempt uses.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/objects/objects.h"
#include "common/kube/watch/reflector.h"

namespace mgpu::extender {

// Thread-safe.
class DisruptionBudgets {
 public:
  // A budget that cannot be read keeps its last state, since budgets only order victims. This
  // object outlives the consumer.
  kube::Consumer<kube::PodDisruptionBudget> consumer();

  struct PodLabels {
    const std::string* name_space;
    const kube::StringMap* labels;
  };
  // Returns for each pod whether evicting the pods in this order would violate a budget, each
  // counted after those before it (kubernetes pkg/scheduler/framework/plugins/defaultpreemption,
  // filterPodsWithPDBViolation). An empty selector selects every pod, as in the disruption
  // controller for policy/v1. Pods in status.disruptedPods, whose eviction is in progress, are
  // counted again.
  std::vector<bool> violations(const std::vector<PodLabels>& pods) const;

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  static Key key_of(const kube::PodDisruptionBudget& budget);

  mutable Mutex mutex_;
  std::map<Key, kube::PodDisruptionBudget> budgets_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
