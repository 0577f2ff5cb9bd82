#include "extender/election/leader_election.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

// A failed renewal is tried again after this time at most.
constexpr Duration kRenewalRetryMax{1'000};

}  // namespace

LeaderElection::LeaderElection(kube::Transport& transport, kube::ObjectRef lease,
                               std::string identity, const ElectionOptions& options,
                               const Heartbeat& work, Events events,
                               std::function<std::string()> time)
    : transport_(transport),
      lease_(std::move(lease)),
      identity_(std::move(identity)),
      options_(options),
      work_(work),
      events_(std::move(events)),
      time_(std::move(time)),
      candidate_(identity_, options_) {}

// The reflector first waits for a handler that is running, which uses the guard.
LeaderElection::~LeaderElection() {
  callbacks_.close();
  watch_.reset();
}

void LeaderElection::start() {
  client_.executor().post(callbacks_.wrap([this] { become_candidate(); }));
}

void LeaderElection::note_asked() {
  if (!options_.when_asked) return;
  client_.executor().post(callbacks_.wrap([this] {
    if (role_ != Role::kCandidate) return;
    candidate_.note_asked(client_.executor().now());
    reconsider();
  }));
}

void LeaderElection::release(std::function<void()> done) {
  client_.executor().post(callbacks_.wrap([this, done = std::move(done)]() mutable {
    released_ = std::move(done);
    if (!in_flight_) give_up();
  }));
}

// --- candidate -----------------------------------------------------------------------------------

void LeaderElection::become_candidate() {
  if (role_ != Role::kIdle || released_) return;
  role_ = Role::kCandidate;
  watch();
  attempt();
}

void LeaderElection::watch() {
  kube::Consumer<kube::Lease> consumer{
      .read = kube::read_lease,
      .apply = [this](const kube::Lease& lease) { observe(lease); },
      .remove = [this](const kube::Lease&) { observe(std::nullopt); },
      .relist =
          [this](const std::vector<kube::Lease>& leases, bool complete) {
            if (!leases.empty()) return observe(leases.front());
            // A Lease that cannot be read exists, and may have a holder.
            if (complete) observe(std::nullopt);
          }};
  watch_.emplace("lease " + to_string(lease_), kube::one_lease(lease_), transport_,
                 std::move(consumer),
                 kube::ReflectorEvents{
                     .on_problem = [this](const std::string& why) { events_.on_problem(why); },
                     .on_unreadable = [this](const std::string& why) { events_.on_problem(why); },
                 });
  watch_->start();
}

// Takes what the watch shows.
void LeaderElection::observe(const std::optional<kube::Lease>& lease) {
  if (role_ != Role::kCandidate) return;
  note(lease);
  reconsider();
}

void LeaderElection::note(const std::optional<kube::Lease>& lease) {
  candidate_.observe(lease, client_.executor().now());
  const std::string holder = candidate_.holder();
  if (holder.empty() || holder == identity_ || holder == reported_holder_) return;
  reported_holder_ = holder;
  if (events_.on_other_holder) events_.on_other_holder(holder);
}

void LeaderElection::reconsider() {
  if (in_flight_) return;
  const Instant now = client_.executor().now();
  if (candidate_.may_take(now)) return attempt();
  wait(candidate_.wait(now), &LeaderElection::attempt);
}

// The watch may be late: the Lease is read before it is taken.
void LeaderElection::attempt() {
  if (role_ != Role::kCandidate || in_flight_) return;
  in_flight_ = true;
  client_.get_lease(lease_, request_timeout(),
                    callbacks_.wrap([this](const LeaseResult& read) { take_if_due(read); }));
}

void LeaderElection::take_if_due(const LeaseResult& read) {
  in_flight_ = false;
  if (released_) return give_up();
  if (!read && read.error().kind != Kind::kNotFound) {
    events_.on_problem(read.error().message);
    return wait(options_.retry, &LeaderElection::attempt);
  }
  note(read ? std::optional(*read) : std::nullopt);
  const Instant now = client_.executor().now();
  if (!candidate_.may_take(now)) return reconsider();
  in_flight_ = true;
  renewed_at_ = now;
  client_.write_lease(candidate_.taken(lease_, time_()), request_timeout(),
                      callbacks_.wrap([this](const LeaseResult& written) { on_written(written); }));
}

void LeaderElection::on_written(const LeaseResult& written) {
  in_flight_ = false;
  if (written) return become_leader(*written);
  if (released_) return give_up();
  // Another candidate was first, or the holder has renewed it.
  if (written.error().kind != Kind::kConflict) events_.on_problem(written.error().message);
  wait(options_.retry, &LeaderElection::attempt);
}

void LeaderElection::become_leader(const kube::Lease& lease) {
  role_ = Role::kLeader;
  held_ = lease;
  watch_.reset();
  if (released_) return give_up();
  events_.on_taken();
  wait(options_.retry, &LeaderElection::renew);
}

// --- leader --------------------------------------------------------------------------------------

void LeaderElection::renew() {
  if (role_ != Role::kLeader || in_flight_) return;
  if (work_.is_missed()) return wait_for_work();
  waits_for_work_ = false;
  kube::Lease next = held_;
  next.renew_time = time_();
  in_flight_ = true;
  client_.write_lease(
      next, request_timeout(),
      callbacks_.wrap([this, sent = client_.executor().now()](const LeaseResult& renewed) {
        on_renewed(renewed, sent);
      }));
}

// After the process or its machine was stopped, the work goes on before it is found missing twice.
void LeaderElection::wait_for_work() {
  const Duration silence = work_.silence();
  if (std::exchange(waits_for_work_, true) && silence >= options_.renew_deadline) {
    return lose(fmt::format("this process has done nothing for {} ms", silence.count()));
  }
  wait(options_.retry, &LeaderElection::renew);
}

void LeaderElection::on_renewed(const LeaseResult& renewed, Instant sent) {
  in_flight_ = false;
  if (renewed) {
    held_ = *renewed;
    renewed_at_ = sent;
  }
  if (released_) return give_up();
  if (renewed) return wait(options_.retry, &LeaderElection::renew);
  on_renewal_failed(renewed.error());
}

void LeaderElection::on_renewal_failed(const kube::ApiError& error) {
  if (error.kind == Kind::kConflict || error.kind == Kind::kNotFound) {
    in_flight_ = true;
    client_.get_lease(lease_, request_timeout(),
                      callbacks_.wrap([this](const LeaseResult& read) { examine(read); }));
    return;
  }
  events_.on_problem(error.message);
  const Duration since = client_.executor().now() - renewed_at_;
  if (since >= options_.renew_deadline) {
    return lose(fmt::format("it could not be renewed for {} ms", since.count()));
  }
  wait(std::min(options_.retry, kRenewalRetryMax), &LeaderElection::renew);
}

// After a conflict: somebody else has written the Lease, or an earlier renewal had no answer.
void LeaderElection::examine(const LeaseResult& read) {
  in_flight_ = false;
  if (released_) return give_up();
  if (!read && read.error().kind == Kind::kNotFound) return lose("it was deleted");
  if (!read) {
    return on_renewal_failed({Kind::kUnknown, read.error().message});
  }
  if (read->holder != identity_) return lose("its holder is " + in_quotes(read->holder));
  held_ = *read;
  renew();
}

void LeaderElection::lose(const std::string& why) {
  end();
  events_.on_lost(why);
}

// --- both ----------------------------------------------------------------------------------------

void LeaderElection::give_up() {
  const bool held = role_ == Role::kLeader;
  end();
  if (!held) return std::exchange(released_, {})();
  kube::Lease free = held_;
  free.holder.clear();
  free.renew_time = time_();
  free.duration_s = 1;
  client_.write_lease(free, kReleaseTimeout, callbacks_.wrap([this](const LeaseResult& written) {
    if (!written) events_.on_problem(written.error().message);
    std::exchange(released_, {})();
  }));
}

void LeaderElection::end() {
  role_ = Role::kEnded;
  if (timer_) client_.executor().cancel(*std::exchange(timer_, {}));
}

void LeaderElection::wait(Duration delay, void (LeaderElection::*then)()) {
  if (timer_) client_.executor().cancel(*timer_);
  timer_ = client_.executor().after(delay, callbacks_.wrap([this, then] {
    timer_.reset();
    (this->*then)();
  }));
}

// Several requests fit in the deadline.
Duration LeaderElection::request_timeout() const {
  return std::min(2 * options_.retry, options_.renew_deadline / 2);
}

}  // namespace mgpu::extender
