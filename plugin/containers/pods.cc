#include "plugin/containers/pods.h"

#include <future>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/kube/limits.h"
#include "common/kube/object_json.h"

namespace mgpu::plugin {

Pods::Pods(const NodeName& node, kube::Transport& transport, std::function<void()> on_change)
    : client_(transport),
      reflector_("pods", kube::pods_of_node(node), transport, consumer(),
                 {.on_problem = [this](const std::string& problem) { on_problem(problem); },
                  .on_unreadable = [this](const std::string& why) { on_unreadable(why); },
                  .on_change = std::move(on_change)}) {}

std::string Pods::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

std::optional<kube::Pod> Pods::find(const PodRef& pod) const {
  const MutexLock lock(mutex_);
  const auto uid = uids_.find(pod);
  return uid == uids_.end() ? std::nullopt : std::optional(pods_.at(uid->second));
}

std::optional<kube::Pod> Pods::find(const PodUid& uid) const {
  const MutexLock lock(mutex_);
  const auto pod = pods_.find(uid);
  return pod == pods_.end() ? std::nullopt : std::optional(pod->second);
}

std::vector<kube::Pod> Pods::all() const {
  std::vector<kube::Pod> pods;
  const MutexLock lock(mutex_);
  for (const auto& [uid, pod] : pods_) pods.push_back(pod);
  return pods;
}

bool Pods::gone(const PodUid& uid) const {
  if (!listed_) return false;
  const auto pod = find(uid);
  return !pod || pod->finished();
}

bool Pods::remade(const PodRef& pod, const PodUid& uid) const {
  const MutexLock lock(mutex_);
  const auto now = uids_.find(pod);
  return now != uids_.end() && now->second != uid;
}

kube::ApiResult<kube::Pod> Pods::fetch(const PodRef& pod, Duration timeout) {
  // Shared with the callback, which may come after we have given up.
  auto answer = std::make_shared<std::promise<kube::ApiResult<kube::Pod>>>();
  auto future = answer->get_future();
  client_.get_pod(pod, timeout,
                  [answer](kube::ApiResult<kube::Pod> got) { answer->set_value(std::move(got)); });
  const Duration patience = timeout + std::chrono::seconds(1);
  if (future.wait_for(patience) == std::future_status::ready) return future.get();
  return kube::ApiError{kube::ApiError::Kind::kUnavailable,
                        "get pod " + to_string(pod) + ": no answer"};
}

kube::Consumer<kube::Pod> Pods::consumer() {
  return {.read = kube::read_pod,
          .apply =
              [this](kube::Pod pod) {
                const MutexLock lock(mutex_);
                problem_.clear();
                keep(std::move(pod));
              },
          .remove =
              [this](const kube::Pod& pod) {
                const MutexLock lock(mutex_);
                forget(pod.uid());
              },
          .relist =
              [this](std::vector<kube::Pod> pods, bool complete) {
                const MutexLock lock(mutex_);
                problem_.clear();
                replace(std::move(pods), complete);
                listed_ = true;
              }};
}

void Pods::keep(kube::Pod pod) {
  // The name may have been another pod's.
  if (const auto at = uids_.find(pod.ref()); at != uids_.end()) forget(PodUid(at->second));
  uids_[pod.ref()] = pod.uid();
  pods_[pod.uid()] = std::move(pod);
}

void Pods::forget(const PodUid& uid) {
  const auto pod = pods_.find(uid);
  if (pod == pods_.end()) return;
  const auto name = uids_.find(pod->second.ref());
  if (name != uids_.end() && name->second == uid) uids_.erase(name);
  pods_.erase(pod);
}

void Pods::replace(std::vector<kube::Pod> pods, bool complete) {
  // One that is missing may be the one that cannot be read, and its containers may run.
  if (complete) {
    pods_.clear();
    uids_.clear();
  }
  for (kube::Pod& pod : pods) keep(std::move(pod));
}

void Pods::on_unreadable(const std::string& why) {
  ++unreadable_;
  if (unreadable_told_.size() >= kube::kUnreadableRemembered) unreadable_told_.clear();
  if (!unreadable_told_.insert(why).second) return;
  log_warn("pod from the API server is ignored", {{"problem", why}});
}

void Pods::on_problem(const std::string& problem) {
  const MutexLock lock(mutex_);
  if (problem_.empty()) {
    log_warn("cannot follow the pods of this node, trying again", {{"problem", problem}});
  }
  problem_ = problem;
}

}  // namespace mgpu::plugin
