// Touches a pod: a write that changes nothing but its resourceVersion, so that a binding with an
// older one, wherever it still waits, is refused with 409. The answer shows whether such a binding
// came first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/callback_guard.h"
#include "common/contract/contract.h"
#include "common/kube/client.h"

namespace mgpu::extender {

enum class TouchResult : std::uint8_t {
  kUnbound,  // no earlier binding has happened or will happen
  kBound,
  kFull,    // it has no room for the condition
  kGone,    // the pod does not exist
  kFailed,  // there was no such answer
};

// Used on the client's executor.
class PodTouch {
 public:
  using Done = std::function<void(const kube::ApiResult<kube::Pod>& pod)>;

  // `client` outlives it. `identity` differs from that of every other process. `on_result` may be
  // empty.
  PodTouch(kube::Client& client, const Contract& contract, const std::string& identity,
           std::function<void(TouchResult)> on_result);

  // Sets the condition of the extender in the pod's status to a value that was never used before.
  // `done` gets the pod as this write has left it. All values have the same length, so a pod that
  // was touched, and has not changed since, can be touched again.
  void touch(const PodRef& pod, Duration timeout, Done done);

  // Makes sure that no binding with the resourceVersion `sent`, or an older one, happens after
  // this: touches the pod. If the touch fails it reads the pod, so that one pod cannot keep the
  // others waiting, and succeeds in two cases:
  //   - The pod has another resourceVersion than `sent`, whoever changed it. `sent` may be empty.
  //   - The pod has no room for the condition (kTooLarge). Then it has no binding that can still
  //     happen: a pod of kTouchedFirstBytes or more was touched before its binding was sent, a
  //     binding needs more room than another value of the condition, and a pod that has changed
  //     since has another resourceVersion. This does not hold for more than 1 MiB of
  //     metadata.managedFields, which kube-scheduler does not send.
  // Otherwise the error is that of the touch, such as kRefused, if the API server shows the pod
  // unchanged: others perhaps can be changed. It is kUnavailable if the pod cannot be read either.
  void settle(const PodRef& pod, const std::string& sent, Duration timeout, Done done);

 private:
  kube::Client& client_;
  const std::string condition_;
  const std::string identity_;  // of fixed length
  const std::function<void(TouchResult)> on_result_;
  std::uint64_t touches_ = 0;
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
