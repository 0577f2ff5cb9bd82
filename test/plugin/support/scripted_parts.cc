#include "test/plugin/support/scripted_parts.h"

#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>

namespace mgpu::test {

using namespace plugin;

bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

// --- cards ---------------------------------------------------------------------------------------

void ScriptedCards::say(Result<FoundCards> answer) {
  {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  interrupt();
}

void ScriptedCards::say_use(std::vector<CardUse> use) {
  {
    const std::lock_guard lock(mutex_);
    use_ = std::move(use);
  }
  interrupt();
}

void ScriptedCards::say_restart(std::string why) {
  const std::lock_guard lock(mutex_);
  restart_ = std::move(why);
}

std::string ScriptedCards::needs_restart() const {
  const std::lock_guard lock(mutex_);
  return restart_;
}

std::size_t ScriptedCards::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

Result<FoundCards> ScriptedCards::read() {
  const std::lock_guard lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  ++reads_;
  return answer_;
}

std::vector<CardUse> ScriptedCards::use() {
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

void ScriptedCards::interrupt() {
  const std::lock_guard lock(mutex_);
  woken_now_ = true;
  woken_.notify_all();
}

// --- injection -----------------------------------------------------------------------------------

void RecordingInjector::fail(std::string problem) {
  const std::lock_guard lock(mutex_);
  problem_ = std::move(problem);
}

std::map<AllocationId, Edits> RecordingInjector::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

std::vector<AllocationId> RecordingInjector::removed() const {
  const std::lock_guard lock(mutex_);
  return removed_;
}

AllocateResponse RecordingInjector::allocate_response(const Record& record) const {
  return {environment_of(record), {"recorded=" + record.id.str()}};
}

void RecordingInjector::restore(const AllocationId& id, const Edits& edits) {
  const std::lock_guard lock(mutex_);
  injected_[id] = edits;
}

Result<bool> RecordingInjector::inject(const AllocationId& id, const Edits& edits) {
  const std::lock_guard lock(mutex_);
  if (!problem_.empty()) return error(problem_);
  const bool changed = !injected_.contains(id) || injected_[id] != edits;
  injected_[id] = edits;
  return changed;
}

void RecordingInjector::remove(const AllocationId& id) {
  const std::lock_guard lock(mutex_);
  injected_.erase(id);
  removed_.push_back(id);
}

}  // namespace mgpu::test
