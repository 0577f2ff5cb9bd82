#include "plugin/node/evictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/kube/client.h"
#include "common/kube/limits.h"
#include "common/kube/request.h"

namespace mgpu::plugin {
namespace {

Eviction::Outcome outcome_of(kube::ApiError::Kind kind) {
  switch (kind) {
    case kube::ApiError::Kind::kNotFound:
      return Eviction::Outcome::kGone;
    case kube::ApiError::Kind::kRefused:
      return Eviction::Outcome::kRefused;
    case kube::ApiError::Kind::kConflict:
    case kube::ApiError::Kind::kUnavailable:
    case kube::ApiError::Kind::kUnknown:
      break;
  }
  return Eviction::Outcome::kNotNow;
}

Eviction eviction_of(const PodRef& pod, const kube::Response& answer) {
  if (answer.ok()) return {Eviction::Outcome::kEvicted, {}, {}};
  const kube::ApiError error = kube::api_error(answer);
  const Duration most = kube::kRetryAfterMax;
  return {outcome_of(error.kind), fmt::format("evict pod {}: {}", to_string(pod), error.message),
          std::clamp(answer.retry_after.value_or(Duration(0)), Duration(0), most)};
}

}  // namespace

void evict(kube::Transport& transport, const PodRef& pod, const PodUid& uid,
           std::function<void(const Eviction&)> done) {
  transport.send(kube::evict(pod, uid),
                 [pod, done = std::move(done)](const kube::Response& answer) {
                   done(eviction_of(pod, answer));
                 });
}

}  // namespace mgpu::plugin
