// The state of the in-memory API server: its collections, the one resourceVersion that they share,
// and the queues of the open watches. It is protected by its owner's mutex.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/apiserver/json.h"
#include "bench/apiserver/store.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace mgpu::kube {

// The events that one watch has not sent yet. Their lines are written when they are sent, so that a
// slow watch shares the objects with the collection.
class WatchQueue {
 public:
  struct Entry {
    std::string_view type;  // "ADDED", "MODIFIED", "DELETED"
    ObjectPtr object;
  };

  // `on_first` is called for the first entry after a take().
  WatchQueue(ObjectFilter filter, std::function<void()> on_first)
      : filter_(std::move(filter)), on_first_(std::move(on_first)) {}

  // Queues the event as this watch shows it: an object that starts to match the filter is ADDED,
  // one that stops to match is DELETED.
  void offer(const StoreEvent& event);
  void add(std::string_view type, ObjectPtr object);
  std::deque<Entry> take() { return std::exchange(entries_, {}); }
  const ObjectFilter& filter() const { return filter_; }

 private:
  ObjectFilter filter_;
  std::function<void()> on_first_;
  std::deque<Entry> entries_;
};

class MemoryCluster {
 public:
  // Wall-clock time is `start` plus the time that passes on the executor's clock.
  MemoryCluster(Executor& executor, std::size_t history_events, std::chrono::sys_seconds start);

  // The version of the newest write.
  std::uint64_t version() const { return version_; }
  Collection& collection(std::size_t kind) { return collections_[kind]; }

  // Writes the next version of `object`, or its deletion, and queues the event for the watches.
  ObjectPtr commit(std::size_t kind, Json& object, bool deleted);
  // Queues the present objects (`version` = none) or the events after `version`, then everything
  // that follows. False: the history no longer holds `version`.
  bool attach(std::size_t kind, const std::shared_ptr<WatchQueue>& queue,
              std::optional<std::uint64_t> version);
  void compact();

  std::string new_uid();
  // RFC 3339, in seconds: `later` from now.
  std::string timestamp(std::chrono::seconds later = std::chrono::seconds(0)) const;

 private:
  Executor& executor_;
  Instant started_;
  std::chrono::sys_seconds start_;
  // The version of the first list must not be "0", which means any version.
  std::uint64_t version_ = 1;
  std::uint64_t uids_ = 0;
  std::vector<Collection> collections_;
  std::vector<std::vector<std::weak_ptr<WatchQueue>>> queues_;
};

struct GuardedCluster {
  template <class... Args>
  explicit GuardedCluster(Args&&... args) : cluster(std::forward<Args>(args)...) {}

  Mutex mutex;
  MemoryCluster cluster MGPU_GUARDED_BY(mutex);
};

}  // namespace mgpu::kube
