// Decisions about nodes, cached for the next pod with an equal request. Most pods are replicas of a
// few templates, and between two of them few nodes change: a decision is used again as long as the
// record of its node has not changed.
//
// Part of the ledger; used under its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"
#include "extender/placement/score.h"

namespace mgpu::extender {

// All that a decision depends on besides the node. Names of containers are left empty.
struct RequestKey {
  std::vector<ContainerRequest> containers;
  CardSelector selector;
  LinkPreference links = LinkPreference::kPreferred;
  // Only scores depend on these.
  NodeResources resources = {};
  PolicyChoice policy = {};
  bool chosen_by_pod = false;  // so that no profile of a node replaces it
  bool operator==(const RequestKey&) const = default;

  static RequestKey of(const GpuRequest& request);
  static RequestKey of(const PlacementContext& context, const PolicyChoice& policy);
};

// The decision about one node.
template <class Decision>
struct Cell {
  std::uint64_t version = 0;  // of the node; 0 if there is no decision
  Decision decision = {};
};
template <class Decision>
using Cells = std::vector<Cell<Decision>>;  // by slot

// The scores of nodes by one price snapshot, the latest that was used.
class ScoreCache {
 public:
  // Null if a later price snapshot has been used. A new price snapshot replaces the scores by
  // those of prewarm, or else by none.
  Cells<Scored>* by(const PriceSnapshot* price_snapshot);
  // Whether by() was called in the last kIdleRefreshesMax calls of this function, which is called
  // once for each price snapshot.
  bool in_use() { return idle_refreshes_++ < kIdleRefreshesMax; }
  // Stores scores by a price snapshot that is not in use yet.
  void prewarm(const PriceSnapshot& price_snapshot, Cells<Scored> cells);

 private:
  struct Scores {
    const PriceSnapshot* price_snapshot = nullptr;
    // That of the price snapshot, whose address another may get later.
    std::uint64_t version = 0;
    Cells<Scored> cells;
  };
  Scores current_;
  Scores prewarmed_;
  int idle_refreshes_ = 0;
};

// The caches of the kRequestKeysMax requests that were used last.
template <class Cache>
class DecisionCache {
 public:
  struct Entry {
    std::shared_ptr<const RequestKey> key;
    Cache cache;
  };

  Cache& of(const RequestKey& key) {
    auto at = position(key);
    if (at == entries_.end()) {
      if (entries_.size() >= kRequestKeysMax) entries_.pop_back();
      at = entries_.insert(entries_.end(), std::make_unique<Entry>(
                                               Entry{std::make_shared<const RequestKey>(key), {}}));
    }
    std::rotate(entries_.begin(), at, at + 1);
    MGPU_DEBUG_CHECK(entries_.size() <= kRequestKeysMax && *entries_.front()->key == key,
                     "the request used last is the first of those that are cached");
    return entries_.front()->cache;
  }
  // Null if there is none.
  Cache* find(const RequestKey& key) {
    const auto at = position(key);
    return at == entries_.end() ? nullptr : &(*at)->cache;
  }
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }

 private:
  auto position(const RequestKey& key) {
    return std::ranges::find_if(entries_, [&](const auto& entry) { return *entry->key == key; });
  }

  std::vector<std::unique_ptr<Entry>> entries_;  // the one used last is the first
};

}  // namespace mgpu::extender
