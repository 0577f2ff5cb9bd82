// The pods that request cards and are not bound, with the last message of kube-scheduler about
// each, for the web page. They are watched while a page is open. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/contract/contract.h"
#include "common/kube/transport.h"
#include "common/kube/watch/reflector.h"
#include "common/kube/watch/unreadable_objects.h"

namespace mgpu::extender {

class WaitingPods {
 public:
  // `transport` and `contract` outlive it.
  WaitingPods(kube::Transport& transport, const Contract& contract);
  ~WaitingPods();

  // Both are called on one thread, which is not that of the transport's executor.
  void follow();
  void leave();

  // Increases with every change.
  std::uint64_t version() const { return version_; }
  // clang-format off
  //
  // waiting   := {"listed", "problem"?, "more"?, "pods": [pod*]}
  // pod       := [namespace, name, created, priority, [container*], reason, message, since,
  //               nominated]
  // container := [name, cards, core, memory]
  //
  // clang-format on
  // The pods that have waited longest are first, at most kWaitingPodsMax and kWaitingBytesMax;
  // "more" is the number of others. created and since, the time of the message, are RFC 3339. core
  // and memory are of each card; memory -1 means whole cards.
  std::string json() const;

 private:
  struct Pod;
  struct Seen;

  struct Copy {
    bool listed = false;
    std::string problem;
    std::size_t all = 0;
    std::vector<std::shared_ptr<const Pod>> pods;  // without those over the limit
  };
  Copy copy() const;
  static void append(std::string& out, const Pod& pod);

  kube::Consumer<Seen> consumer();
  Result<Seen> read(std::string_view json) const;

  kube::Transport& transport_;
  const Contract& contract_;
  // Limits the details in memory, those of a relist included.
  const std::shared_ptr<std::atomic<std::size_t>> detailed_;
  std::atomic<std::uint64_t> version_ = 1;
  mutable Mutex mutex_;
  bool listed_ MGPU_GUARDED_BY(mutex_) = false;
  std::string problem_ MGPU_GUARDED_BY(mutex_);
  // By uid. Null: a pod over the limit.
  std::map<std::string, std::shared_ptr<const Pod>> pods_ MGPU_GUARDED_BY(mutex_);
  kube::UnreadableObjects unreadable_;
  std::unique_ptr<kube::Reflector> reflector_;  // ends first
};

}  // namespace mgpu::extender
