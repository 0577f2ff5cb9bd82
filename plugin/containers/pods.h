// The pods of this node as the API server reports them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/watch/reflector.h"
#include "common/kube/watch/unreadable_objects.h"

namespace mgpu::plugin {

// A pod whose containers kubelet kills once its grace period has ended.
struct DeletedPod {
  PodUid uid;
  std::int32_t grace_seconds = 0;  // of the last deletion
  // The end of the grace period by the clock of the transport's executor. It is counted from the
  // event of the deletion, so that the clocks of other machines do not matter. A deletion that is
  // found in a list may have happened long ago, and may end earlier, at its deletionTimestamp.
  Instant ends{};
};

// Any thread.
class Pods {
 public:
  using WallClock = std::function<std::chrono::sys_seconds()>;

  // `transport` outlives it.
  Pods(const NodeName& node, kube::Transport& transport, WallClock wall_clock = node_clock);

  void start() { reflector_.start(); }
  bool listed() const { return listed_; }
  // Why the pods cannot be watched at present, or empty.
  std::string problem() const;
  // Number of objects that were skipped because they could not be read.
  std::uint64_t unreadable() const { return unreadable_.count(); }

  std::optional<kube::Pod> find(const PodRef& pod) const;
  std::optional<kube::Pod> find(const PodUid& uid) const;
  std::vector<kube::Pod> all() const;
  // The pods that are being deleted, and have not finished.
  std::vector<DeletedPod> deleted() const;
  // The pods were listed, and this one is not among them or has finished.
  bool gone(const PodUid& uid) const;
  // The pod is known, and has succeeded or failed.
  bool finished(const PodUid& uid) const;
  // Another pod has this name.
  bool replaced(const PodRef& pod, const PodUid& uid) const;

  // Reads the pod from the API server, within `timeout`. REQUIRES: not on the executor.
  kube::ApiResult<kube::Pod> fetch(const PodRef& pod, Duration timeout);

 private:
  enum class Origin { kEvent, kList };

  static std::chrono::sys_seconds node_clock();
  kube::Consumer<kube::Pod> consumer();
  void on_problem(const std::string& problem);
  void on_unreadable(const std::string& problem);
  void add(kube::Pod pod, Origin origin) MGPU_REQUIRES(mutex_);
  void remove(const PodUid& uid) MGPU_REQUIRES(mutex_);
  void note_deletion(const kube::Pod& pod, Origin origin) MGPU_REQUIRES(mutex_);
  void forget_deletions() MGPU_REQUIRES(mutex_);

  const WallClock wall_clock_;
  Executor& executor_;
  kube::Client client_;
  std::atomic<bool> listed_ = false;
  kube::UnreadableObjects unreadable_;
  mutable Mutex mutex_;
  std::map<PodUid, kube::Pod> pods_ MGPU_GUARDED_BY(mutex_);
  std::map<PodRef, PodUid> uids_ MGPU_GUARDED_BY(mutex_);
  std::map<PodUid, DeletedPod> deletions_ MGPU_GUARDED_BY(mutex_);  // of pods in pods_
  std::string problem_ MGPU_GUARDED_BY(mutex_);
  kube::Reflector reflector_;  // destroyed first, since its handlers use all other members
};

}  // namespace mgpu::plugin
