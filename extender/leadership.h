// The Lease of this process, and what several replicas need besides: the election that takes and
// renews the Lease, and the EndpointSlice that names the leader. Owns all three. For the owner's
// thread, except for the functions with another comment; `on_lost` is called on the client's
// executor. The election has an executor of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/callback_guard.h"
#include "common/base/heartbeat.h"
#include "common/kube/client.h"
#include "common/kube/transport.h"
#include "extender/bind/holder_lease.h"
#include "extender/election/leader_election.h"
#include "extender/election/leader_endpoints.h"

namespace mgpu::extender {

class Leadership {
 public:
  // `client` and `work`, the heartbeat of the client's executor, outlive it. The Lease is taken at
  // once if `for_election` is null. Otherwise, that transport outlives it too, and `election` is
  // set. `on_lost` may be empty.
  Leadership(kube::Client& client, const kube::ObjectRef& lease, kube::Transport* for_election,
             const std::optional<ElectionOptions>& election, const Heartbeat& work,
             std::function<void(const std::string& sentence)> on_lost);

  HolderLease& lease() { return lease_; }
  // Returns whether several replicas elect a leader. Any thread, like the next one.
  bool is_elected() const { return election_.has_value(); }
  // Notes that kube-scheduler has sent a request to this process, which does not lead.
  void note_asked();
  // Writes this process into the EndpointSlice. Once.
  void publish(const EndpointOptions& options, std::uint16_t port);
  // Gives an elected Lease up, so that the next leader need not wait until it expires. Waits for
  // the answer of the API server, for kReleaseTimeout at most. Not on the executors.
  void release();

 private:
  LeaderElection::Events election_events();
  void acquire(HolderLease::Done done);
  void lose(const std::string& sentence);

  kube::Client& client_;
  const std::function<void(const std::string&)> on_lost_;
  std::atomic<bool> given_up_ = false;  // another process may take the Lease, which is no loss
  HolderLease lease_;
  HolderLease::Done acquired_;
  CallbackGuard callbacks_;  // of the election, which uses it from another thread
  std::optional<LeaderElection> election_;
  std::optional<LeaderEndpoints> endpoints_;
};

}  // namespace mgpu::extender
