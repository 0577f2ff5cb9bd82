// The binds that wait until the watch has shown the nominations of their pods. A member of a group
// is nominated right before it is bound, which changes its resourceVersion, and a binding that is
// refused for that costs more than a read. It owns what each bind does next; what the watch has
// shown is in the cache. For the binder only, on the client's executor.
#pragma once

#include <unordered_map>

#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "extender/bind/pod_cache.h"

namespace mgpu::extender {

class AwaitedNominations {
 public:
  // All references outlive it. `callbacks` is closed first.
  AwaitedNominations(Executor& executor, const PodCache& pods, const CallbackGuard& callbacks)
      : executor_(executor), pods_(pods), callbacks_(callbacks) {}

  // Returns whether the pod is bound with others, and filter's copy is from before its nomination.
  bool awaits(const PodUid& uid, const NodeName& node) const;
  // Calls `go_on` once the nomination is shown, or after kNominationShownMax; at once if the pod
  // awaits none, or another bind of it waits. Does not call it once `callbacks` is closed.
  void wait(const PodUid& uid, const NodeName& node, Task go_on);
  // Looks at the copy of the pod, which is newer than before.
  void on_shown(const PodUid& uid);

 private:
  struct Waiting {
    NodeName node;
    Task go_on;
    Executor::TimerId timer = 0;
  };

  Executor& executor_;
  const PodCache& pods_;
  const CallbackGuard& callbacks_;
  std::unordered_map<PodUid, Waiting> waiting_;
};

}  // namespace mgpu::extender
