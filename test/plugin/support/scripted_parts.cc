#include "test/plugin/support/scripted_parts.h"

#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>

namespace mgpu::test {

struct ScriptedPodResources::Script {
  std::mutex mutex;
  std::string problem;  // protected by mutex, as the next
  std::vector<kubelet::ContainerDevices> listed;
  int calls = 0;
};

namespace {

using Script = ScriptedPodResources::Script;

// The script of the client that is made next: a test has one.
std::shared_ptr<Script>& latest_script() {
  static std::shared_ptr<Script> latest;
  return latest;
}

std::shared_ptr<Script> new_script() {
  return latest_script() = std::make_shared<Script>();
}

}  // namespace
}  // namespace mgpu::test

// --- in the place of plugin/kubelet/pod_resources.cc ---------------------------------------------

namespace mgpu::kubelet {

struct PodResources::State {
  std::shared_ptr<test::ScriptedPodResources::Script> script;
};

PodResources::PodResources(std::string) : state_(std::make_shared<State>(test::latest_script())) {}

PodResources::~PodResources() = default;

Result<std::vector<ContainerDevices>> PodResources::list(const std::string&,
                                                         std::chrono::milliseconds) {
  auto& script = *state_->script;
  const std::lock_guard lock(script.mutex);
  ++script.calls;
  if (!script.problem.empty()) return error(script.problem);
  return script.listed;
}

}  // namespace mgpu::kubelet

namespace mgpu::test {

bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

// --- kubelet's list ------------------------------------------------------------------------------

ScriptedPodResources::ScriptedPodResources() : script_(new_script()), client_("none") {}

ScriptedPodResources::~ScriptedPodResources() = default;

void ScriptedPodResources::list(const std::string& pod, const std::string& container,
                                const std::vector<std::string>& ids) {
  const std::lock_guard lock(script_->mutex);
  script_->listed.push_back({{"ml", pod}, container, allocation::DeviceSet::of(ids).value()});
}

void ScriptedPodResources::forget(const std::string& pod) {
  const std::lock_guard lock(script_->mutex);
  std::erase_if(script_->listed, [&](const auto& one) { return one.pod.name == pod; });
}

void ScriptedPodResources::fail(std::string problem) {
  const std::lock_guard lock(script_->mutex);
  script_->problem = std::move(problem);
}

int ScriptedPodResources::calls() const {
  const std::lock_guard lock(script_->mutex);
  return script_->calls;
}

// --- cards ---------------------------------------------------------------------------------------

void ScriptedCards::say(Result<gpu::Inventory> answer) {
  {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  wake();
}

void ScriptedCards::say_use(std::vector<gpu::CardUse> use) {
  {
    const std::lock_guard lock(mutex_);
    use_ = std::move(use);
  }
  wake();
}

std::size_t ScriptedCards::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

Result<gpu::Inventory> ScriptedCards::read() {
  const std::lock_guard lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  ++reads_;
  return answer_;
}

std::vector<gpu::CardUse> ScriptedCards::use() {
  const std::lock_guard lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  return use_;
}

void ScriptedCards::wait_for_change(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  woken_.wait_for(lock, timeout, [this] { return woken_now_; });
  woken_now_ = false;
}

void ScriptedCards::wake() {
  const std::lock_guard lock(mutex_);
  woken_now_ = true;
  woken_.notify_all();
}

// --- injection -----------------------------------------------------------------------------------

void RecordingInjector::fail(std::string problem) {
  const std::lock_guard lock(mutex_);
  problem_ = std::move(problem);
}

std::map<allocation::AllocationId, allocation::Edits> RecordingInjector::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

std::vector<allocation::AllocationId> RecordingInjector::removed() const {
  const std::lock_guard lock(mutex_);
  return removed_;
}

injection::Answer RecordingInjector::answer(const allocation::Record& record) const {
  return {{{}, {}, environment_of(record)}, {"recorded=" + record.id.str()}};
}

void RecordingInjector::know(const allocation::AllocationId& id, const allocation::Edits& edits) {
  const std::lock_guard lock(mutex_);
  injected_[id] = edits;
}

Result<bool> RecordingInjector::inject(const allocation::AllocationId& id,
                                       const allocation::Edits& edits) {
  const std::lock_guard lock(mutex_);
  if (!problem_.empty()) return error(problem_);
  const bool changed = !injected_.contains(id) || injected_[id] != edits;
  injected_[id] = edits;
  return changed;
}

void RecordingInjector::remove(const allocation::AllocationId& id) {
  const std::lock_guard lock(mutex_);
  injected_.erase(id);
  removed_.push_back(id);
}

}  // namespace mgpu::test
