// What the agent's parts stand on, as a test wants it: cards, an injector, and kubelet's list.
//
// PodResources itself is replaced at link time (scripted_parts.cc defines it), so that
// these tests need no gRPC and run under ThreadSanitizer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugin/cards/card_source.h"
#include "plugin/injection/injector.h"
#include "plugin/kubelet/pod_resources.h"

namespace mgpu::test {

using namespace plugin;

// Looks again and again until it is true; false after half a minute.
bool comes_true(const std::function<bool()>& condition);

// Any thread.
class ScriptedCards final : public CardSource {
 public:
  explicit ScriptedCards(Result<FoundCards> first) : answer_(std::move(first)) {}

  // From the next look on, which comes at once.
  void say(Result<FoundCards> answer);
  void say_use(std::vector<CardUse> use);
  void say_restart(std::string why);
  // On which it was asked so far: a source is asked by one at a time.
  std::size_t threads() const;
  int reads() const { return reads_; }
  int released() const { return released_; }

  Result<FoundCards> read() override;
  std::vector<CardUse> use() override;
  void wait_for_change(std::chrono::milliseconds timeout) override;
  void interrupt() override;
  void release() override { ++released_; }
  std::string needs_restart() const override;
  std::string description() const override { return "scripted cards"; }

 private:
  std::atomic<int> reads_ = 0;
  std::atomic<int> released_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool woken_now_ = false;  // protected by mutex_, as the next
  Result<FoundCards> answer_;
  std::vector<CardUse> use_;
  std::string restart_;
  std::set<std::thread::id> threads_;
};

// Remembers what containers were given. Any thread.
class RecordingInjector final : public Injector {
 public:
  // The sentence with which inject() fails from now on; empty: works.
  void fail(std::string problem);
  std::map<AllocationId, Edits> injected() const;
  std::vector<AllocationId> removed() const;

  AllocateResponse allocate_response(const Record& record) const override;
  void set_shared(const Edits&) override {}
  void restore(const AllocationId& id, const Edits& edits) override;
  Result<bool> inject(const AllocationId& id, const Edits& edits) override;
  void remove(const AllocationId& id) override;

 private:
  mutable std::mutex mutex_;
  std::string problem_;  // protected by mutex_, as the next
  std::map<AllocationId, Edits> injected_;
  std::vector<AllocationId> removed_;
};

// kubelet's PodResources API. Any thread.
class ScriptedPodResources {
 public:
  ScriptedPodResources();
  ~ScriptedPodResources();

  // "ml/<pod>" with these devices in container `container`.
  void list(const std::string& pod, const std::string& container,
            const std::vector<std::string>& ids);
  void forget(const std::string& pod);
  // Silent from now on, with this sentence; empty: answers.
  void fail(std::string problem);
  int calls() const;

  PodResources& client() { return client_; }

  struct Script;

 private:
  const std::shared_ptr<Script> script_;
  PodResources client_;
};

}  // namespace mgpu::test
