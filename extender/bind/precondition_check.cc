#include "extender/bind/precondition_check.h"

#include <string>
#include <utility>

#include "extender/bind/limits.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

// etcd's first revision is 1, and no pod is written in it.
constexpr const char* kNoPodsVersion = "1";

}  // namespace

void PreconditionCheck::run(const PodRef& pod, const NodeName& node, Done done) {
  kube::Request request = kube::dry_run_bind({pod, PodUid(), node, {}, kNoPodsVersion});
  request.timeout = kBindTimeout;
  client_.write(
      std::move(request), "check of preconditions of a binding",
      callbacks_.wrap([this, done = std::move(done)](const kube::ApiResult<void>& answer) {
        done(conclude(answer));
      }));
}

// A bound pod gives 409 too where the precondition is ignored, with another message.
kube::ApiResult<void> PreconditionCheck::conclude(const kube::ApiResult<void>& answer) {
  if (!answer && answer.error().kind != Kind::kConflict) return answer;
  if (!answer &&
      answer.error().message.find("ResourceVersion in precondition") != std::string::npos) {
    state_ = State::kEnforced;
    return {};
  }
  // A 409 about anything else is no evidence.
  const bool says_nothing =
      !answer && answer.error().message.find("already assigned") == std::string::npos;
  if (says_nothing) return answer;
  state_ = State::kIgnored;
  return kube::ApiError{Kind::kRefused, kPreconditionIgnored};
}

}  // namespace mgpu::extender
