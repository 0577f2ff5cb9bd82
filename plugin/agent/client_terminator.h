// Ends the MPS clients of a pod shortly before kubelet kills its containers. A client that is
// killed while its work is on the card can leave the server of MPS, which all containers of the
// card share, in a state in which it serves no client.
//
// kubelet sends SIGTERM when it observes that a pod is to be deleted, and SIGKILL after the grace
// period. Processes that are still clients `margin` before that are ended. A program has at least
// half of its grace period to end by itself.
//
// A client is only ended if the driver lists its process on the card, and the cgroup of that
// process is of the pod: where the daemon is in another process namespace than the node's, its
// numbers belong to other processes, or to none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps/mps_clients.h"
#include "plugin/containers/pods.h"

namespace mgpu::plugin {

// due() and pod_of() are of one thread, that of MpsClients.
class ClientTerminator : public MpsClientTerminator {
 public:
  // All are called on that thread, and may lock.
  struct Dependencies {
    std::function<std::vector<DeletedPod>()> deleted_pods;
    std::function<std::vector<Record>()> bound;
    std::function<std::vector<CardUse>()> use;  // as last read from the driver
    std::function<void()> read_soon;            // has it read again; does not wait for it
    std::function<Instant()> now;               // the clock of DeletedPod::ends
  };
  // `proc_folder` is the node's /proc. With a `margin` of 0 no client is ended.
  ClientTerminator(Dependencies dependencies, std::string proc_folder, Duration margin)
      : dependencies_(std::move(dependencies)),
        proc_folder_(std::move(proc_folder)),
        margin_(margin) {}

  Due due() override;
  std::optional<PodUid> pod_of(const CardUuid& card, std::int64_t pid) override;
  // Ends all use of the dependencies before it returns. Any thread.
  void stop();

 private:
  // The pods whose clients are to be ended now. Sets the time until there are others.
  std::set<PodUid> due_pods(Due& due) const MGPU_REQUIRES(mutex_);

  const Dependencies dependencies_;
  const std::string proc_folder_;
  const Duration margin_;
  Mutex mutex_;
  bool stopped_ MGPU_GUARDED_BY(mutex_) = false;
  std::map<CardUuid, std::set<PodUid>> due_ MGPU_GUARDED_BY(mutex_);  // of the last due()
};

}  // namespace mgpu::plugin
