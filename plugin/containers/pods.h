// The pods of this node as the API server shows them, and the way to ask it for one that the watch
// has not shown yet.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/client.h"
#include "common/kube/reflector.h"

namespace mgpu::plugin {

// Any thread, unless said otherwise.
class Pods {
 public:
  // `transport` outlives it. `on_change` runs on the executor after each change; may be empty.
  Pods(const NodeName& node, kube::Transport& transport, std::function<void()> on_change);

  void start() { reflector_.start(); }
  bool listed() const { return listed_; }
  // One sentence while the API server does not answer; else empty.
  std::string problem() const;
  // Objects that could not be read, and were skipped. Any thread.
  std::uint64_t unreadable() const { return unreadable_; }

  std::optional<kube::Pod> find(const PodRef& pod) const;
  std::optional<kube::Pod> find(const PodUid& uid) const;
  std::vector<kube::Pod> all() const;
  // Listed, and it is not among them or has finished.
  bool gone(const PodUid& uid) const;
  // There is a pod of this name, and it is another one.
  bool remade(const PodRef& pod, const PodUid& uid) const;

  // Asks the API server now. REQUIRES: not on the executor. Waits at most `timeout`.
  kube::ApiResult<kube::Pod> fetch(const PodRef& pod, Duration timeout);

 private:
  kube::Consumer<kube::Pod> consumer();
  void on_problem(const std::string& problem);
  void on_unreadable(const std::string& why);
  void keep(kube::Pod pod) MGPU_REQUIRES(mutex_);
  void forget(const PodUid& uid) MGPU_REQUIRES(mutex_);
  void replace(std::vector<kube::Pod> pods, bool complete) MGPU_REQUIRES(mutex_);

  kube::Client client_;
  std::atomic<bool> listed_ = false;
  mutable Mutex mutex_;
  std::map<PodUid, kube::Pod> pods_ MGPU_GUARDED_BY(mutex_);
  std::map<PodRef, PodUid> uids_ MGPU_GUARDED_BY(mutex_);
  std::string problem_ MGPU_GUARDED_BY(mutex_);
  std::set<std::string> unreadable_told_;  // on the executor: sentences that the log has
  std::atomic<std::uint64_t> unreadable_ = 0;
  kube::Reflector reflector_;  // ends first: it calls the others
};

}  // namespace mgpu::plugin
