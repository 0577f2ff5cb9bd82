// The extender processes of the cluster: one, or two replicas that elect a leader. A process that
// is killed, or has lost the Lease, is followed by another one on its machine; a process that is
// replaced does not know it, and goes on for some time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "test/simulation/extender_process.h"
#include "test/simulation/leadership.h"
#include "test/simulation/plan.h"

namespace mgpu::simulation {

class Extenders {
 public:
  // All outlive it. Starts the first process of each replica. `violate` gets a sentence for each
  // broken promise, and `on_event` each Event that a process writes.
  Extenders(kube::MemoryApiServer& server, const Contract& contract, const Setting& setting,
            std::function<void(std::string)> violate,
            std::function<void(const std::string& event)> on_event);

  // The replica that has the Lease, or the other one. The leader is the first one while nobody has
  // it. With one replica both are the same.
  enum class Which : std::uint8_t { kLeader, kFollower };
  // Null where its process has ended.
  ExtenderProcess* find(Which which) { return find(newest(replica(which))); }
  FaultQueue& faults() { return faults_; }
  // One sentence where the replicas are not as they are after quiet: one decides, the other one
  // follows.
  std::optional<std::string> problem_after_quiet();

  // Another process than `number` decides.
  bool decides_without(int number);
  enum class End : std::uint8_t { kShutDown, kKilled, kHung };
  // How long it takes at most until the follower decides, once the leader has ended so and nothing
  // else happens.
  Duration failover_after(End end) const;
  int leader() { return newest(replica(Which::kLeader)); }

  // Calls a verb, as kube-scheduler does: `done` gets the status and the body, and which process
  // has answered, or zeros where none runs. It may never be called.
  using Answered = std::function<void(int status, const std::string& body, int process)>;
  void call(const std::string& verb, std::string body, const Answered& done);
  // kube-scheduler runs on this machine, where it calls the replica beside it.
  void move_scheduler(int machine) { scheduler_at_ = machine; }

  void kill(Which which);
  void kill_all();
  void shut_down(Which which);
  // The process is stopped, and another one starts meanwhile.
  void replace(ExtenderProcess::Stop stop, Duration time);
  // A binding waits in an API server that is stopped, for `time`. Its process is killed meanwhile.
  void hold_next_bind(Duration time, Duration kill_after);
  void cut_from_api(Which which, Link::Cut cut, Duration time);
  void cut_from_scheduler(Which which, Duration time);
  void move_clock(Which which, Duration by);
  // Requests of kube-scheduler reach any process.
  void misroute(Duration time) { misrouted_until_ = world_.now() + time; }

 private:
  struct Replica {
    int newest = 0;  // its last process
    Duration clock_offset{0};
    Link::Cut cut = Link::Cut::kLost;
    Instant cut_until{};
    Instant scheduler_cut_until{};
  };
  struct Process {
    std::size_t replica = 0;
    std::unique_ptr<ExtenderProcess> process;
  };

  ExtenderProcess* find(int number);
  int newest(std::size_t replica) const { return replicas_[replica].newest; }
  std::size_t replica(Which which);
  void start(std::size_t replica);
  void start_later(std::size_t replica);
  void end(int number);
  void on_lease_lost(int number);
  bool keeps_lease(int number);
  void note_deciding();
  void on_served(int number, const kube::Request& request, const kube::Response& response);
  bool reaches_scheduler(std::size_t replica) {
    return replicas_[replica].scheduler_cut_until <= world_.now();
  }
  int route();
  int endpoint();
  void follow_endpoint();

  Executor& world_;
  kube::MemoryApiServer& server_;
  const Contract& contract_;
  const Setting setting_;
  FaultQueue faults_;
  Leadership leadership_;
  const std::function<void(const std::string&)> on_event_;
  std::vector<Replica> replicas_;
  std::map<int, Process> processes_;
  int started_ = 0;
  int scheduler_at_ = 0;
  Instant misrouted_until_{};
  // The way through the Service: what kube-proxy has, and the connection of kube-scheduler.
  int proxied_ = 0;
  bool proxy_is_due_ = false;
  int connected_ = 0;
  Instant connected_until_{};
};

}  // namespace mgpu::simulation
