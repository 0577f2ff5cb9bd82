// Elects one of several processes as the leader, with a Lease (coordination.k8s.io/v1) and the
// algorithm of client-go (candidate.h).
//
//   Idle --start()--> Candidate --Lease taken--> Leader --release()-----------> Ended
//                       ^   |                      |
//                       +---+ 409, no answer       +--another holder, no Lease, or not
//                                                    renewed for the deadline--> Ended
//
// A leader whose work hangs does not renew the Lease, although this class has an executor of its
// own, and ends like one that cannot renew it.
//
// A candidate watches the Lease, so that it notices at once that the holder gave it up. The Lease
// is read again before it is taken, and the write has its resourceVersion as a precondition: one of
// several candidates succeeds. A process that has been the leader never becomes it again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/callback_guard.h"
#include "common/base/heartbeat.h"
#include "common/base/utc_text.h"
#include "common/kube/client.h"
#include "common/kube/watch/reflector.h"
#include "extender/election/candidate.h"

namespace mgpu::extender {

// All callbacks run on the transport's executor, as everything does that is not marked.
class LeaderElection {
 public:
  struct Events {
    std::function<void()> on_taken;                               // once
    std::function<void(const std::string& sentence)> on_lost;     // at most once, after on_taken
    std::function<void(const std::string& sentence)> on_problem;  // each failure
    // Called for a candidate if another process holds the Lease, once for each holder.
    std::function<void(const std::string& holder)> on_other_holder{};
  };

  // `transport` outlives it. It should have a connection and a thread of its own, so that nothing
  // else delays a renewal. `identity` differs from that of every other process. `work` is of the
  // executor that binds pods, and outlives it. `time` returns the wall clock's time as
  // metav1.MicroTime, for the Lease alone.
  LeaderElection(kube::Transport& transport, kube::ObjectRef lease, std::string identity,
                 const ElectionOptions& options, const Heartbeat& work, Events events,
                 std::function<std::string()> time = utc_micro_now);
  // No callback runs after it returns.
  ~LeaderElection();

  // Any thread. Once.
  void start();
  // kube-scheduler has sent this process a request, and it is not the leader. Any thread.
  void note_asked();
  // Gives the Lease up if this process holds it. `done` is called after that, once, whether it
  // succeeded or not. The process is no leader and no candidate from now on. Any thread.
  void release(std::function<void()> done);

 private:
  enum class Role { kIdle, kCandidate, kLeader, kEnded };
  using LeaseResult = kube::ApiResult<kube::Lease>;

  void become_candidate();
  void watch();
  void observe(const std::optional<kube::Lease>& lease);
  void note(const std::optional<kube::Lease>& lease);
  void reconsider();
  void attempt();
  void take_if_due(const LeaseResult& read);
  void on_written(const LeaseResult& written);
  void become_leader(const kube::Lease& lease);

  void renew();
  void wait_for_work();
  void on_renewed(const LeaseResult& renewed, Instant sent);
  void on_renewal_failed(const kube::ApiError& error);
  void examine(const LeaseResult& read);
  void lose(const std::string& why);

  void give_up();
  void end();
  void wait(Duration delay, void (LeaderElection::*then)());
  Duration request_timeout() const;

  kube::Transport& transport_;
  kube::Client client_{transport_};
  const kube::ObjectRef lease_;
  const std::string identity_;
  const ElectionOptions options_;
  const Heartbeat& work_;
  const Events events_;
  const std::function<std::string()> time_;
  // On the executor.
  Role role_ = Role::kIdle;
  LeaseCandidate candidate_;
  std::string reported_holder_;
  std::optional<kube::Reflector> watch_;  // of a candidate
  std::optional<Executor::TimerId> timer_;
  bool in_flight_ = false;  // a request
  kube::Lease held_;        // as this process last wrote or read it
  Instant renewed_at_{};
  bool waits_for_work_ = false;
  std::function<void()> released_;
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
