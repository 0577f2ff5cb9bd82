#include "plugin/containers/pods.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"

namespace mgpu::plugin {

Pods::Pods(const NodeName& node, kube::Transport& transport, WallClock wall_clock)
    : wall_clock_(std::move(wall_clock)),
      executor_(transport.executor()),
      client_(transport),
      reflector_("pods", kube::pods_of_node(node), transport, consumer(),
                 {.on_problem = [this](const std::string& problem) { on_problem(problem); },
                  .on_unreadable = [this](const std::string& why) { on_unreadable(why); }}) {}

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
  pods.reserve(pods_.size());
  for (const auto& [uid, pod] : pods_) pods.push_back(pod);
  return pods;
}

bool Pods::gone(const PodUid& uid) const {
  if (!listed_) return false;
  const auto pod = find(uid);
  return !pod || pod->finished();
}

bool Pods::finished(const PodUid& uid) const {
  const auto pod = find(uid);
  return pod && pod->finished();
}

bool Pods::replaced(const PodRef& pod, const PodUid& uid) const {
  const MutexLock lock(mutex_);
  const auto now = uids_.find(pod);
  return now != uids_.end() && now->second != uid;
}

std::vector<DeletedPod> Pods::deleted() const {
  const MutexLock lock(mutex_);
  std::vector<DeletedPod> deleted;
  for (const auto& [uid, deletion] : deletions_) {
    const auto pod = pods_.find(uid);
    if (pod != pods_.end() && !pod->second.finished()) deleted.push_back(deletion);
  }
  return deleted;
}

kube::ApiResult<kube::Pod> Pods::fetch(const PodRef& pod, Duration timeout) {
  // Shared with the callback, which may run after this function has returned.
  auto promise = std::make_shared<std::promise<kube::ApiResult<kube::Pod>>>();
  auto future = promise->get_future();
  client_.get_pod(pod, timeout, [promise](kube::ApiResult<kube::Pod> got) {
    promise->set_value(std::move(got));
  });
  if (future.wait_for(timeout + std::chrono::seconds(1)) == std::future_status::ready) {
    return future.get();
  }
  return kube::ApiError{kube::ApiError::Kind::kUnavailable,
                        "get pod " + to_string(pod) + ": no answer"};
}

std::chrono::sys_seconds Pods::node_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

kube::Consumer<kube::Pod> Pods::consumer() {
  return {.read = kube::read_pod,
          .apply =
              [this](kube::Pod pod) {
                const MutexLock lock(mutex_);
                problem_.clear();
                add(std::move(pod), Origin::kEvent);
                forget_deletions();
              },
          .remove =
              [this](const kube::Pod& pod) {
                const MutexLock lock(mutex_);
                remove(pod.uid());
                forget_deletions();
              },
          .relist =
              [this](std::vector<kube::Pod> pods, bool complete) {
                const MutexLock lock(mutex_);
                problem_.clear();
                // If an object could not be read, a pod that is missing from the list may still
                // run.
                if (complete) {
                  pods_.clear();
                  uids_.clear();
                }
                for (kube::Pod& pod : pods) add(std::move(pod), Origin::kList);
                forget_deletions();
                listed_ = true;
              }};
}

void Pods::add(kube::Pod pod, Origin origin) {
  note_deletion(pod, origin);
  // The name may have belonged to another pod, and a broken API server may name a pod anew.
  if (const auto at = uids_.find(pod.ref()); at != uids_.end()) remove(PodUid(at->second));
  remove(pod.uid());
  uids_[pod.ref()] = pod.uid();
  pods_[pod.uid()] = std::move(pod);
}

void Pods::note_deletion(const kube::Pod& pod, Origin origin) {
  const kube::Metadata& metadata = pod.metadata;
  const PodUid uid = pod.uid();
  if (!metadata.being_deleted || !metadata.deletion_grace_seconds) {
    deletions_.erase(uid);
    return;
  }
  const std::int32_t grace = std::max(*metadata.deletion_grace_seconds, 0);
  const auto known = deletions_.find(uid);
  // A second deletion may shorten the grace period, which begins anew then.
  if (known != deletions_.end() && known->second.grace_seconds == grace) return;
  std::chrono::seconds left(grace);
  if (origin == Origin::kList && metadata.deletion_time) {
    left = std::clamp(*metadata.deletion_time - wall_clock_(), std::chrono::seconds(0), left);
  }
  deletions_[uid] = {.uid = uid, .grace_seconds = grace, .ends = executor_.now() + left};
}

void Pods::forget_deletions() {
  for (auto at = deletions_.begin(); at != deletions_.end();) {
    at = pods_.contains(at->first) ? std::next(at) : deletions_.erase(at);
  }
  MGPU_DEBUG_CHECK(deletions_.size() <= pods_.size(), "deletions are those of known pods");
}

void Pods::remove(const PodUid& uid) {
  const auto pod = pods_.find(uid);
  if (pod == pods_.end()) return;
  const auto name = uids_.find(pod->second.ref());
  if (name != uids_.end() && name->second == uid) uids_.erase(name);
  pods_.erase(pod);
}

void Pods::on_unreadable(const std::string& problem) {
  if (unreadable_.note(problem))
    log_warn("pod from the API server skipped", {{"problem", problem}});
}

void Pods::on_problem(const std::string& problem) {
  const MutexLock lock(mutex_);
  if (problem_.empty()) {
    log_warn("watch of this node's pods failed, retrying", {{"problem", problem}});
  }
  problem_ = problem;
}

}  // namespace mgpu::plugin
