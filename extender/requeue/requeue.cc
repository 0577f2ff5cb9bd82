#include "extender/requeue/requeue.h"

#include <fmt/format.h>

#include <utility>

namespace mgpu::extender {
namespace {

constexpr const char* kStorageClass = "mgpu-no-such-class";
constexpr const char* kSubject = "requeue pods in kube-scheduler";

using Kind = kube::ApiError::Kind;

}  // namespace

Requeue::Requeue(kube::Client& client, Ledger& ledger, Executor& delayed, std::string name_space,
                 RequeueEvents events)
    : client_(client),
      ledger_(ledger),
      name_space_(std::move(name_space)),
      events_(std::move(events)),
      process_(static_cast<std::uint32_t>(client.executor().random() * 0x1p32)),
      delay_(delayed) {}

void Requeue::filter(const PodUid& uid, std::span<const std::string_view> asked,
                     std::function<FilterReply(Instant now)> decide,
                     std::function<void(const FilterReply& reply)> answer) {
  {
    const Instant now = client_.executor().now();
    const MutexLock lock(mutex_);
    tracker_.on_filter(uid, now);
    asked_.take_wait(uid);  // It counts in its own scheduling cycle only.
  }
  const auto call = std::make_shared<Call>(Call{uid, asked, std::move(decide), std::move(answer)});
  delay_.run(
      uid, [this, call] { return this->decide(*call); }, [this, call] { this->answer(*call); });
}

// Decides again only after a release: each decision may take a search on many nodes.
Next Requeue::decide(Call& call) {
  const Instant now = client_.executor().now();
  const std::uint64_t releases = ledger_.reader().releases(now);
  if (call.releases == releases) return Next::kWait;
  call.releases = releases;
  call.card_changes = ledger_.reader().card_changes();
  call.reply = call.decide(now);
  if (call.reply.outcome == FilterOutcome::kFits) {
    const MutexLock lock(mutex_);
    if (asked_.forget(call.reply.replica_group)) tracker_.on_found();
    return Next::kAnswer;
  }
  call.is_requeued = requeue_at_once(call);
  const bool waits = call.reply.outcome == FilterOutcome::kMayChange && !call.is_requeued;
  return waits && !ledger_.decisions().searches_ended() ? Next::kWait : Next::kAnswer;
}

bool Requeue::requeue_at_once(const Call& call) {
  const FilterReply& reply = call.reply;
  if (reply.fitting_elsewhere.empty() || name_space_.empty() || call.uid.empty()) return false;
  const Instant now = client_.executor().now();
  const MutexLock lock(mutex_);
  if (refused_ ||
      !asked_.rejected(reply.replica_group, call.uid, call.asked, reply.fitting_elsewhere, now))
    return false;
  if (!tracker_.on_rejected_in_part(call.uid, *call.releases, now)) {
    asked_.take_wait(call.uid);
    return false;
  }
  client_.executor().after(Duration(0), callbacks_.wrap([this] { send_if_due(); }));
  if (!timer_runs_) start_timer();
  return true;
}

void Requeue::answer(const Call& call) {
  const Instant now = client_.executor().now();
  rejected_.on_filter(call.uid, call.reply.rejection, now);
  const FilterOutcome outcome = call.reply.outcome;
  const bool may_change = outcome != FilterOutcome::kFits && outcome != FilterOutcome::kRejected;
  if (may_change && !call.is_requeued && !name_space_.empty() && !call.uid.empty()) {
    const MutexLock lock(mutex_);
    if (outcome == FilterOutcome::kNeedsOtherCards) {
      tracker_.on_other_cards_needed(call.uid, call.card_changes, now);
    } else {
      tracker_.on_rejected(call.uid, *call.releases, now);
    }
    if (!timer_runs_) start_timer();
  }
  call.answer(call.reply);
}

bool Requeue::take_wait(const PodUid& uid) {
  const MutexLock lock(mutex_);
  return asked_.take_wait(uid);
}

void Requeue::on_settled(const PodUid& uid) {
  rejected_.on_settled(uid);
  const MutexLock lock(mutex_);
  tracker_.on_settled(uid);
}

void Requeue::start_timer() {
  timer_runs_ = true;
  client_.executor().after(kRequeuePoll, callbacks_.wrap([this] { poll(); }));
}

void Requeue::poll() {
  const Instant now = client_.executor().now();
  const std::uint64_t releases = ledger_.reader().releases(now);
  const std::uint64_t card_changes = ledger_.reader().card_changes();
  {
    const MutexLock lock(mutex_);
    tracker_.observe(releases, card_changes, now);
    timer_runs_ = false;
    if (!tracker_.empty()) start_timer();
  }
  send_if_due();
}

void Requeue::send_if_due() {
  const Instant now = client_.executor().now();
  {
    const MutexLock lock(mutex_);
    const auto due = tracker_.due();
    if (!due || *due > now) return;
    tracker_.sent(now);
  }
  requeue();
}

void Requeue::requeue() {
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

void Requeue::finish(const kube::ApiResult<void>& written) {
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
  std::string sentence =
      problem.message +
      (refused ? "; the extender needs the Role mgpu-extender of "
                 "deploy/manifests/mgpu.yaml in the namespace that --requeue-namespace names"
               : "; trying again");
  if (sentence == logged_problem_) return;
  logged_problem_ = std::move(sentence);
  events_.on_problem(logged_problem_);
}

}  // namespace mgpu::extender
