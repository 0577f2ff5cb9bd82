// The Lease that names the one process that may bind pods.
//
//   NotTaken --take()--> Held --another holder is read, or no Lease--> Lost
//
// Safety does not depend on time. Each bind reads the Lease after it had its copy of the pod and
// before its POST. So once a process has taken the Lease, no other process sends a bind with a
// copy of the pod that is newer than that; and older copies are made useless by a change of
// the pod's resourceVersion (start_sequence.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"

namespace mgpu::extender {

// Used on the client's executor, except for the functions with another comment. Callbacks run on
// it.
class HolderLease {
 public:
  using Done = std::function<void(const kube::ApiResult<void>& held)>;

  // `client` outlives the Lease. `identity` must differ from that of every other process, earlier
  // ones included. `on_lost` is called once. `acquire` takes the Lease when it may be taken, where
  // several processes elect a leader (election/leader_election.h).
  HolderLease(kube::Client& client, kube::ObjectRef lease, std::string identity,
              std::function<void(const std::string& sentence)> on_lost,
              std::function<void(Done done)> acquire = {});
  // No callback runs after the destructor returns.
  ~HolderLease() { callbacks_.close(); }

  // Writes this process into the Lease, whoever held it before, and creates the Lease if there is
  // none. An error changes nothing that matters: try again. With `acquire`, calls that instead.
  void take(Done done);
  // Reads the Lease with a request that is sent after this call: at once, or while calls overlap,
  // kLeaseReadInterval after the one before. One request serves all calls that wait for it.
  // Errors: this process does not hold it (kRefused; no later call succeeds), or the API server did
  // not answer.
  void confirm(Done done);

  // Ends as if confirm() had found another holder. `found` is the reason: "its holder is \"b\"".
  void lose_because(const std::string& found) { lose(found); }

  // Any thread.
  bool lost() const { return lost_; }
  const std::string& identity() const { return identity_; }
  // "kube-system/mgpu-extender"
  std::string name() const { return to_string(lease_); }

 private:
  void read();
  void read_later();
  bool calls_overlap() const;
  kube::ApiResult<void> examine(const kube::ApiResult<kube::Lease>& read);
  kube::ApiResult<void> lose(const std::string& found);

  kube::Client& client_;
  const kube::ObjectRef lease_;
  const std::string identity_;
  const std::function<void(const std::string&)> on_lost_;
  const std::function<void(Done)> acquire_;
  std::atomic<bool> lost_ = false;
  std::vector<Done> waiting_;             // for a request that has not been sent
  std::size_t reads_ = 0;                 // in flight
  bool read_is_due_ = false;              // at a time that is set
  Instant read_at_{};                     // the last request
  std::optional<Instant> overlapped_at_;  // a call came while another waited
  CallbackGuard callbacks_;               // ends first
};

}  // namespace mgpu::extender
