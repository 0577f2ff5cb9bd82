// The state behind the in-memory API server: its collections, the one resourceVersion that all of
// them share, and the watches that look on. Guarded by its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/kube/memory/json.h"
#include "common/kube/memory/store.h"

namespace mgpu::kube {

// What a watch has still to deliver. Lines are written when they are delivered, so that a watch
// that lags shares the objects with the collection.
class WatchFeed {
 public:
  struct Entry {
    std::string_view type;  // "ADDED", "MODIFIED", "DELETED"
    ObjectPtr object;
  };

  // `wake` is called for the first entry after a take().
  WatchFeed(ObjectFilter filter, std::function<void()> wake)
      : filter_(std::move(filter)), wake_(std::move(wake)) {}

  // Queues the event as this watch sees it: an object that starts to match is ADDED, one that
  // stops is DELETED.
  void offer(const StoreEvent& event);
  void add(std::string_view type, ObjectPtr object);
  std::deque<Entry> take() { return std::exchange(entries_, {}); }
  const ObjectFilter& filter() const { return filter_; }

 private:
  ObjectFilter filter_;
  std::function<void()> wake_;
  std::deque<Entry> entries_;
};

class MemoryCluster {
 public:
  // Wall-clock time is `start` plus what passes on the executor's clock.
  MemoryCluster(Executor& executor, std::size_t history_events, std::chrono::sys_seconds start);

  // Of the newest write.
  std::uint64_t version() const { return version_; }
  Collection& collection(std::size_t kind) { return collections_[kind]; }

  // Writes the next version of `object`, or its end, and tells the watches.
  ObjectPtr commit(std::size_t kind, Json& object, bool deleted);
  // The objects that are there (`version` = none) or the events after `version`, then everything
  // that follows. False: history no longer holds `version`.
  bool attach(std::size_t kind, const std::shared_ptr<WatchFeed>& feed,
              std::optional<std::uint64_t> version);
  void compact();

  std::string new_uid();
  // RFC 3339, in seconds, `later` from now.
  std::string timestamp(std::chrono::seconds later = std::chrono::seconds(0)) const;

 private:
  Executor& executor_;
  Instant started_;
  std::chrono::sys_seconds start_;
  // The first list is not "0", which has a meaning of its own.
  std::uint64_t version_ = 1;
  std::uint64_t uids_ = 0;
  std::vector<Collection> collections_;
  std::vector<std::vector<std::weak_ptr<WatchFeed>>> feeds_;
};

}  // namespace mgpu::kube
