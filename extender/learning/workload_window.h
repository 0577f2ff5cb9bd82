// The workload, learned from the pods seen: the last kWorkloadWindowPods of them, each
// counted once, however often it is asked about. Thread-safe.
//
// Before any pod is seen the window holds one pod of no cluster in particular, which wants a whole
// card: without it the first pod would be taken for all that ever come.
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

  // `pod` is draw_of its uid. Pods that are known change nothing.
  void seen(std::uint64_t pod, const GpuRequest& request, const NodeResources& host);

  // Whether the pod was seen, also when it has left the window since: pods that run are shown again
  // and again. The last kWorkloadKnownPods are known.
  bool knows(std::uint64_t pod) const;
  // Rises with every pod that counted.
  std::uint64_t pods_seen() const;
  // Classes that differ in main memory alone are one, which asks for their mean. In no order that
  // means anything, but equal windows give equal lists.
  std::vector<CountedClass> counted() const;

 private:
  // By everything but main memory.
  struct ByAmounts {
    bool operator()(const PodClass& a, const PodClass& b) const;
  };
  struct Counted {
    std::int64_t pods = 0;
    std::int64_t memory_mib = 0;  // of all of them
  };
  using Classes = std::map<PodClass, Counted, ByAmounts>;
  using Seen = std::vector<std::pair<Classes::iterator, MiB>>;  // the classes of one pod

  void add(std::vector<PodClass> classes) MGPU_REQUIRES(mutex_);
  void drop_oldest() MGPU_REQUIRES(mutex_);

  const std::size_t most_;
  mutable Mutex mutex_;
  Classes classes_ MGPU_GUARDED_BY(mutex_);
  // The one seen first comes first, in both.
  std::deque<Seen> pods_ MGPU_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> known_order_ MGPU_GUARDED_BY(mutex_);
  std::unordered_set<std::uint64_t> known_ MGPU_GUARDED_BY(mutex_);  // of known_order_
  std::uint64_t seen_ MGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace mgpu::extender
