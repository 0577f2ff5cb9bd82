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
  kGone,    // the pod does not exist
  kFailed,  // there was no such answer
};

// Used on the client's executor.
class PodTouch {
 public:
  using Done = std::function<void(const kube::ApiResult<kube::Pod>& pod)>;

  // `client` outlives it. `identity` differs from that of every other process. `on_result` may be
  // empty.
  PodTouch(kube::Client& client, const Contract& contract, std::string identity,
           std::function<void(TouchResult)> on_result);

  // Sets the condition of the extender in the pod's status to a value that was never used before.
  // `done` gets the pod as this write has left it.
  void touch(const PodRef& pod, Done done);

 private:
  kube::Client& client_;
  const std::string condition_;
  const std::string identity_;
  const std::function<void(TouchResult)> on_result_;
  std::uint64_t touches_ = 0;
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
