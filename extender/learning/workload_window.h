// The learned workload: the last kWorkloadWindowPods pods, each counted once, however many requests
// there are for it. Thread-safe.
//
// A new window holds one pod that requests a whole card; otherwise the first pod seen would be the
// only class that is expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/contract/gpu_request.h"
#include "extender/learning/limits.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

class WorkloadWindow {
 public:
  explicit WorkloadWindow(std::size_t most = kWorkloadWindowPods);

  // `pod` is tie_break_seed_of its uid. A pod that is among the last kWorkloadKnownPods changes
  // nothing, also when it has left the window: running pods are reported again by every relist.
  void seen(std::uint64_t pod, const GpuRequest& request, const NodeResources& host);

  // The number of pods counted.
  std::uint64_t pods_seen() const;
  // Classes that differ only in main memory are one, which requests their mean. The order is
  // unspecified; equal windows return equal lists.
  std::vector<CountedClass> counted() const;

 private:
  // Compares everything except main memory.
  struct ByAmounts {
    bool operator()(const PodClass& a, const PodClass& b) const;
  };
  struct Counted {
    std::int64_t pods = 0;
    std::int64_t memory_mib = 0;  // the sum of their main memory
  };
  using Classes = std::map<PodClass, Counted, ByAmounts>;
  using Seen = std::vector<std::pair<Classes::iterator, MiB>>;  // the classes of one pod

  void add(std::vector<PodClass> classes) MGPU_REQUIRES(mutex_);

  const std::size_t most_;
  mutable Mutex mutex_;
  Classes classes_ MGPU_GUARDED_BY(mutex_);
  // Both in the order seen.
  std::deque<Seen> pods_ MGPU_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> known_order_ MGPU_GUARDED_BY(mutex_);
  std::unordered_set<std::uint64_t> known_ MGPU_GUARDED_BY(mutex_);  // of known_order_
  std::uint64_t seen_ MGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace mgpu::extender
