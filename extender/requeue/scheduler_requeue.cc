#include "extender/requeue/scheduler_requeue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/mutex.h"
#include "extender/requeue/limits.h"

namespace mgpu::extender {
namespace {

constexpr const char* kStorageClass = "mgpu-no-such-class";
constexpr const char* kAnnotation = "mgpu-wake";

using Kind = kube::ApiError::Kind;

bool needs_somebody(Kind kind) {
  return kind == Kind::kRefused || kind == Kind::kNotFound;
}

std::string sentence(const kube::ApiError& problem) {
  return problem.message + (needs_somebody(problem.kind)
                                ? "; apply deploy/rbac/extender.yaml, with the namespace that "
                                  "--requeue-namespace names"
                                : "; trying again");
}

}  // namespace

SchedulerRequeue::SchedulerRequeue(kube::Client& client, const Ledger& ledger, std::string space,
                                   WakerEvents events)
    : client_(client),
      ledger_(ledger),
      space_(std::move(space)),
      events_(std::move(events)),
      start_(static_cast<std::uint32_t>(client.executor().random() * 0x1p32)) {}

void SchedulerRequeue::asked(const PodUid& uid) {
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  list_.asked(uid, now);
}

void SchedulerRequeue::refused(const PodUid& uid, std::uint64_t releases) {
  if (space_.empty() || uid.empty()) return;
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  list_.refused(uid, releases, now);
  if (!armed_) arm();
}

void SchedulerRequeue::gone(const PodUid& uid) {
  const MutexLock lock(mutex_);
  list_.gone(uid);
}

void SchedulerRequeue::arm() {
  armed_ = true;
  client_.executor().after(kRequeuePoll, callbacks_.wrap([this] { look(); }));
}

void SchedulerRequeue::look() {
  if (!begin(ledger_.releases(), client_.executor().now())) return;
  write(kube::annotate_storage_capacity(object()), &SchedulerRequeue::on_patched);
}

bool SchedulerRequeue::begin(std::uint64_t releases, Instant now) {
  const MutexLock lock(mutex_);
  list_.observe(releases, now);
  armed_ = false;
  if (!list_.empty()) arm();
  const auto due = list_.due();
  if (!due || *due > now) return false;
  list_.sent(now);
  return true;
}

kube::StorageCapacity SchedulerRequeue::object() {
  // A write that changes nothing would be no event.
  return {.space = space_,
          .name = kWakeObject,
          .storage_class = kStorageClass,
          .annotation = kAnnotation,
          .value = fmt::format("{:08x}-{}", start_, ++written_)};
}

void SchedulerRequeue::write(kube::Request request, Done done) {
  request.timeout = kRequeueTimeout;
  client_.write(std::move(request), "wake kube-scheduler",
                callbacks_.wrap(
                    [this, done](const kube::ApiResult<void>& result) { (this->*done)(result); }));
}

void SchedulerRequeue::on_patched(const kube::ApiResult<void>& patched) {
  if (patched) return woken();
  if (patched.error().kind != Kind::kNotFound) return failed(patched.error());
  write(kube::create_storage_capacity(object()), &SchedulerRequeue::on_created);
}

void SchedulerRequeue::on_created(const kube::ApiResult<void>& created) {
  if (created || created.error().kind == Kind::kConflict) return woken();
  failed(created.error());
}

void SchedulerRequeue::woken() {
  {
    const MutexLock lock(mutex_);
    list_.woken();
  }
  retry_ = kRequeueRetryFirst;
  told_.clear();
  events_.on_outcome(RequeueOutcome::kRequeued);
}

void SchedulerRequeue::failed(const kube::ApiError& problem) {
  {
    const MutexLock lock(mutex_);
    list_.failed(client_.executor().now() + retry_);
  }
  retry_ = std::min(2 * retry_, Duration(kRequeueRetryMax));
  events_.on_outcome(needs_somebody(problem.kind) ? RequeueOutcome::kRefused
                                                  : RequeueOutcome::kFailed);
  std::string now = sentence(problem);
  if (now == told_) return;
  told_ = std::move(now);
  events_.on_problem(told_);
}

}  // namespace mgpu::extender
