// The learned workload: the last kWorkloadWindowPods pods with cards, and as many without, each
// counted once, however many requests there are for it. Its memory is bounded in bytes, and the
// influence of one namespace is bounded (gpu_pod_window.h, namespace_shares.h). Thread-safe.
//
// Pods without cards do not take part in prices. How many there are only matters to the measure of
// FGD and to the weight of the prior for card models, so they are counted as one class, and for at
// most as many pods as those with cards.
//
// A new window holds one pod that requests a whole card; otherwise the first pod seen would be the
// only class that is expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/base/mutex.h"
#include "common/contract/gpu_request.h"
#include "extender/learning/gpu_pod_window.h"
#include "extender/learning/limits.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// The last pods that were added, of which each is new once.
class KnownPods {
 public:
  // Whether the pod is not among the last kWorkloadKnownPods.
  bool insert(std::uint64_t pod);

 private:
  std::deque<std::uint64_t> order_;
  std::unordered_set<std::uint64_t> known_;  // of order_
};

class WorkloadWindow {
 public:
  explicit WorkloadWindow(std::size_t pods_max = kWorkloadWindowPods,
                          std::size_t bytes_max = kWorkloadWindowBytes);

  // `pod` is tie_break_seed_of its uid. A pod that is among the last kWorkloadKnownPods changes
  // nothing, also when it has left the window: running pods are reported again by every relist.
  void seen(std::uint64_t pod, std::string_view name_space, const GpuRequest& request,
            const NodeResources& resources);

  // The number of pods counted.
  std::uint64_t pods_seen() const;
  // The same without those that leave all prices as they are: all pods without cards except the
  // first.
  std::uint64_t pods_that_change_prices() const;
  // Classes that differ only in main memory are one, which requests their mean. The order is
  // unspecified; equal windows return equal lists.
  std::vector<CountedClass> counted() const;
  // An upper bound of the memory of the pods with cards.
  std::size_t bytes() const;

 private:
  void add_non_gpu(const NodeResources& resources) MGPU_REQUIRES(mutex_);

  const std::size_t pods_max_;
  mutable Mutex mutex_;
  GpuPodWindow gpu_pods_ MGPU_GUARDED_BY(mutex_);
  KnownPods known_gpu_ MGPU_GUARDED_BY(mutex_);
  KnownPods known_non_gpu_ MGPU_GUARDED_BY(mutex_);
  std::deque<NodeResources> non_gpu_ MGPU_GUARDED_BY(mutex_);  // in the order seen
  NodeResources non_gpu_sum_ MGPU_GUARDED_BY(mutex_);          // of non_gpu_
  std::uint64_t gpu_seen_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t non_gpu_seen_ MGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace mgpu::extender
