#include "extender/requeue/scheduler_requeue.h"

#include <fmt/format.h>

#include <utility>

namespace mgpu::extender {
namespace {

constexpr const char* kStorageClass = "mgpu-no-such-class";
constexpr const char* kSubject = "requeue pods in kube-scheduler";

using Kind = kube::ApiError::Kind;

}  // namespace

SchedulerRequeue::SchedulerRequeue(kube::Client& client, Ledger& ledger, std::string name_space,
                                   RequeueEvents events)
    : client_(client),
      ledger_(ledger),
      name_space_(std::move(name_space)),
      events_(std::move(events)),
      process_(static_cast<std::uint32_t>(client.executor().random() * 0x1p32)) {}

void SchedulerRequeue::on_filter(const PodUid& uid) {
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  tracker_.on_filter(uid, now);
  asked_.take_wait(uid);  // It counts in its own scheduling cycle only.
}

void SchedulerRequeue::on_rejected(const PodUid& uid, std::uint64_t releases) {
  if (name_space_.empty() || uid.empty()) return;
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  tracker_.on_rejected(uid, releases, now);
  if (!timer_runs_) start_timer();
}

bool SchedulerRequeue::on_rejected_in_part(PodGroup group, const PodUid& uid,
                                           std::span<const std::string_view> asked,
                                           std::span<const std::string> fitting,
                                           std::uint64_t releases) {
  if (name_space_.empty() || uid.empty()) return false;
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  if (refused_ || !asked_.rejected(group, uid, asked, fitting, now)) return false;
  if (!tracker_.on_rejected_in_part(uid, releases, now)) {
    asked_.take_wait(uid);
    return false;
  }
  client_.executor().after(Duration(0), callbacks_.wrap([this] { send_if_due(); }));
  if (!timer_runs_) start_timer();
  return true;
}

bool SchedulerRequeue::take_wait(const PodUid& uid) {
  const MutexLock lock(mutex_);
  return asked_.take_wait(uid);
}

void SchedulerRequeue::on_fits(PodGroup group) {
  const MutexLock lock(mutex_);
  if (asked_.forget(group)) tracker_.on_found();
}

void SchedulerRequeue::on_settled(const PodUid& uid) {
  const MutexLock lock(mutex_);
  tracker_.on_settled(uid);
}

void SchedulerRequeue::start_timer() {
  timer_runs_ = true;
  client_.executor().after(kRequeuePoll, callbacks_.wrap([this] { poll(); }));
}

void SchedulerRequeue::poll() {
  const Instant now = client_.executor().now();
  const std::uint64_t releases = ledger_.releases(now);
  {
    const MutexLock lock(mutex_);
    tracker_.observe(releases, now);
    timer_runs_ = false;
    if (!tracker_.empty()) start_timer();
  }
  send_if_due();
}

void SchedulerRequeue::send_if_due() {
  const Instant now = client_.executor().now();
  {
    const MutexLock lock(mutex_);
    const auto due = tracker_.due();
    if (!due || *due > now) return;
    tracker_.sent(now);
  }
  requeue();
}

void SchedulerRequeue::requeue() {
  // A write that changes nothing would cause no event.
  const kube::StorageCapacity object{.name_space = name_space_,
                                     .name = kRequeueObject,
                                     .storage_class = kStorageClass,
                                     .annotation = kRequeueObject,
                                     .value = fmt::format("{:08x}-{}", process_, ++written_)};
  const auto on_created = [this](const kube::ApiResult<void>& created) {
    const bool exists = !created && created.error().kind == Kind::kConflict;
    finish(exists ? kube::ApiResult<void>() : created);
  };
  const auto on_patched = [this, object, on_created](const kube::ApiResult<void>& patched) {
    if (patched || patched.error().kind != Kind::kNotFound) return finish(patched);
    kube::Request create = kube::create_storage_capacity(object);
    create.timeout = kRequeueTimeout;
    client_.write(std::move(create), kSubject, callbacks_.wrap(on_created));
  };
  kube::Request annotate = kube::annotate_storage_capacity(object);
  annotate.timeout = kRequeueTimeout;
  client_.write(std::move(annotate), kSubject, callbacks_.wrap(on_patched));
}

void SchedulerRequeue::finish(const kube::ApiResult<void>& written) {
  if (written) {
    {
      const MutexLock lock(mutex_);
      tracker_.succeeded();
      refused_ = false;
    }
    backoff_.reset();
    logged_problem_.clear();
    return events_.on_outcome(RequeueOutcome::kRequeued);
  }
  const kube::ApiError& problem = written.error();
  const bool refused = problem.kind == Kind::kRefused || problem.kind == Kind::kNotFound;
  {
    const MutexLock lock(mutex_);
    tracker_.failed(client_.executor().now() + backoff_.next());
    refused_ = refused;
  }
  events_.on_outcome(refused ? RequeueOutcome::kRefused : RequeueOutcome::kFailed);
  std::string sentence = problem.message + (refused ? "; apply deploy/rbac/extender.yaml, with the "
                                                      "namespace that --requeue-namespace names"
                                                    : "; trying again");
  if (sentence == logged_problem_) return;
  logged_problem_ = std::move(sentence);
  events_.on_problem(logged_problem_);
}

}  // namespace mgpu::extender
