// Evicts pods from this node (policy/v1), within what disruption budgets allow.
#pragma once

#include <functional>
#include <string>

#include "common/base/ids.h"
#include "common/kube/limits.h"
#include "common/kube/transport.h"

namespace mgpu::plugin {

struct Eviction {
  enum class Outcome {
    kEvicted,  // it is being deleted
    kGone,     // there is no such pod
    kNotNow,   // a budget forbids it, the API server is busy or away, or another pod has the name:
               // look again later
    kRefused,  // no right to, or a request that will never do
  };
  Outcome outcome = Outcome::kNotNow;
  std::string message;     // one sentence; empty for kEvicted
  Duration retry_after{};  // what the server asked for, at most kube::kRetryAfterMax
};

// `transport` outlives the call. `done` runs on its executor, exactly once, unless the transport
// ends before. Another pod of the same name (another uid) stays. Any thread.
void evict(kube::Transport& transport, const PodRef& pod, const PodUid& uid,
           std::function<void(const Eviction&)> done);

}  // namespace mgpu::plugin
