#include "extender/bind/pod_touch.h"

#include <fmt/format.h>

#include <utility>

#include "extender/bind/limits.h"

namespace mgpu::extender {
namespace {

TouchResult result_of(const kube::ApiResult<kube::Pod>& pod) {
  if (pod) return pod->node_name.empty() ? TouchResult::kUnbound : TouchResult::kBound;
  const bool gone = pod.error().kind == kube::ApiError::Kind::kNotFound;
  return gone ? TouchResult::kGone : TouchResult::kFailed;
}

}  // namespace

PodTouch::PodTouch(kube::Client& client, const Contract& contract, std::string identity,
                   std::function<void(TouchResult)> on_result)
    : client_(client),
      condition_(contract.touched_condition()),
      identity_(std::move(identity)),
      on_result_(std::move(on_result)) {}

void PodTouch::touch(const PodRef& pod, Done done) {
  const kube::PodCondition condition{condition_, fmt::format("{}-{}", identity_, ++touches_)};
  client_.set_pod_condition(
      pod, condition, kBindTimeout,
      callbacks_.wrap([this, done = std::move(done)](const kube::ApiResult<kube::Pod>& touched) {
        if (on_result_) on_result_(result_of(touched));
        done(touched);
      }));
}

}  // namespace mgpu::extender
