// Whether the API server refuses a binding whose resourceVersion is not that of the pod.
// kube-apiserver before 1.25.9, 1.26.4 and 1.27.0 ignores it silently.
#pragma once

#include <atomic>
#include <functional>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"

namespace mgpu::extender {

// Used on the client's executor, except for the functions with another comment.
class PreconditionCheck {
 public:
  using Done = std::function<void(const kube::ApiResult<void>& refused)>;

  // `client` outlives it.
  explicit PreconditionCheck(kube::Client& client) : client_(client) {}

  // Sends a dry run of a binding of this pod, bound or not, to `node`, with a resourceVersion that
  // no pod has. An admission webhook may look up the node. Errors: the server accepts it (kRefused,
  // and ignored() from then on); the pod does not exist (kNotFound); there was no clear answer.
  void run(const PodRef& pod, const NodeName& node, Done done);

  // Any thread. Neither is true before the first clear answer.
  bool enforced() const { return state_ == State::kEnforced; }
  bool ignored() const { return state_ == State::kIgnored; }

 private:
  enum class State { kUnknown, kEnforced, kIgnored };

  kube::ApiResult<void> conclude(const kube::ApiResult<void>& answer);

  kube::Client& client_;
  std::atomic<State> state_ = State::kUnknown;
  CallbackGuard callbacks_;  // ends first
};

// What to do about an API server that ignores it. One sentence.
inline constexpr const char* kPreconditionIgnored =
    "the API server ignores metadata.resourceVersion of a binding; Kubernetes 1.25.9, 1.26.4, 1.27 "
    "or later is required";

}  // namespace mgpu::extender
