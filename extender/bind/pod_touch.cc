#include "extender/bind/pod_touch.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/digest.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

constexpr std::size_t kIdentityDigits = 16;

TouchResult result_of(const kube::ApiResult<kube::Pod>& pod) {
  if (pod) return pod->node_name.empty() ? TouchResult::kUnbound : TouchResult::kBound;
  if (pod.error().kind == Kind::kTooLarge) return TouchResult::kFull;
  return pod.error().kind == Kind::kNotFound ? TouchResult::kGone : TouchResult::kFailed;
}

// A webhook may take the condition out again: then nothing is written.
const kube::ApiError kWithoutEffect{Kind::kRefused, "a change of the status has no effect"};

bool has_changed(const kube::Pod& pod, const std::string& sent) {
  return sent.empty() || pod.metadata.resource_version != sent;
}

// Why the pod is not settled. A webhook may refuse with any code, such as 404, or 429, which an API
// server with too many requests answers, too.
kube::ApiError unsettled(const kube::ApiError& failure, const kube::ApiResult<kube::Pod>& read) {
  if (!read) return {Kind::kUnavailable, failure.message};
  if (failure.kind == Kind::kNotFound) return {Kind::kRefused, failure.message};
  if (failure.kind == Kind::kUnavailable) return {Kind::kUnknown, failure.message};
  return failure;
}

// Whether the pod as it was read after a failed touch shows the same as a touch.
bool is_settled(const kube::ApiError& failure, const std::string& sent,
                const kube::ApiResult<kube::Pod>& read) {
  if (!read) return read.error().kind == Kind::kNotFound;
  if (failure.kind == Kind::kTooLarge) return true;
  return !sent.empty() && has_changed(*read, sent);
}

}  // namespace

PodTouch::PodTouch(kube::Client& client, const Contract& contract, const std::string& identity,
                   std::function<void(TouchResult)> on_result)
    : client_(client),
      condition_(contract.touched_condition()),
      identity_(sha256_hex(identity).substr(0, kIdentityDigits)),
      on_result_(std::move(on_result)) {}

void PodTouch::touch(const PodRef& pod, Duration timeout, Done done) {
  const kube::PodCondition condition{condition_, fmt::format("{}-{:016x}", identity_, ++touches_)};
  client_.set_pod_condition(
      pod, condition, timeout,
      callbacks_.wrap([this, done = std::move(done)](const kube::ApiResult<kube::Pod>& touched) {
        if (on_result_) on_result_(result_of(touched));
        done(touched);
      }));
}

void PodTouch::settle(const PodRef& pod, const std::string& sent, Duration timeout, Done done) {
  touch(pod, timeout,
        [this, pod, sent, timeout,
         done = std::move(done)](const kube::ApiResult<kube::Pod>& touched) {
          if (touched) return done(has_changed(*touched, sent) ? touched : kWithoutEffect);
          client_.get_pod(
              pod, timeout,
              callbacks_.wrap([sent, touched, done](const kube::ApiResult<kube::Pod>& read) {
                if (is_settled(touched.error(), sent, read)) return done(read);
                done(unsettled(touched.error(), read));
              }));
        });
}

}  // namespace mgpu::extender
