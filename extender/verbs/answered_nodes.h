// The nodes that have refused a pod after filter answered them.
//
// filter answers the best node, and what fails later is not in its message: a volume that cannot be
// made there, a plugin of kube-scheduler or another extender that refuses it, a binding that the
// API server refuses. Without this, the same node would be the best one again and again. If
// kube-scheduler asks about a pod again whose node was answered, that node is avoided for a minute,
// and twice as long each time: the pod gets another one where one fits, and that one where none
// does.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace mgpu::extender {

// Thread-safe.
class AnsweredNodes {
 public:
  // Notes that kube-scheduler filters the pod: the node that was answered before has refused it.
  void asked(const PodUid& uid, Instant now);
  // Notes that kube-scheduler goes on with this node.
  void answered(const PodUid& uid, std::string_view node);
  // Forgets the answer, since the node is not the reason of the failure: the next asked() is no
  // refusal.
  void forget_answer(const PodUid& uid);
  // Removes the pod, which is bound, finished or deleted.
  void end(const PodUid& uid);

  // Returns the avoided nodes, in no order.
  std::vector<std::string> avoided(const PodUid& uid, Instant now) const;
  std::size_t size() const;

 private:
  struct Avoidance {
    std::string node;
    Duration wait{};
    Instant until{};
  };
  struct Pod {
    PodUid uid;
    std::string answered;  // empty if nothing was answered since it was asked
    std::vector<Avoidance> avoidances;
  };
  using Pods = std::list<Pod>;  // the one that was answered longest ago is in front

  mutable Mutex mutex_;
  Pods pods_ MGPU_GUARDED_BY(mutex_);
  std::unordered_map<PodUid, Pods::iterator> by_uid_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
