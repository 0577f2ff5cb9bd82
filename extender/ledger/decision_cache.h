// What decisions found for each node, kept for the next pod that asks for the same. Pods come in
// few shapes, and between two of them few nodes change: what stands for a node is used again for as
// long as its record has not changed since.
//
//   (none) --decided--> kept for this version of the node --the record changes--> decided anew
//     |                      |     ^
//     |                      +-----|--later price snapshot, or the shape is the one used longest
//     ago-> (none)
//     +--decided ahead of a price snapshot-+
//
// Part of the ledger; used under its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"
#include "extender/ledger/node_slots.h"

namespace mgpu::extender {

// All that a decision goes by beside the node: of pods with equal shapes one answer is every
// answer. Names of containers are left empty.
struct RequestKey {
  std::vector<ContainerRequest> containers;
  CardSelector selector;
  // What only scores depend on.
  NodeResources host;
  PolicyChoice policy;
  bool operator==(const RequestKey&) const = default;

  static RequestKey of(const GpuRequest& request);
  static RequestKey of(const PlacementContext& context, const PolicyChoice& policy);
};

// Whether a request fits each node.
class FitCache {
 public:
  // Before why_not().
  void cover(const NodeSlots& slots) { cells_.resize(std::max(cells_.size(), slots.size())); }
  std::optional<Reason> why_not(const NodeSlots& slots, NodeSlot slot, const GpuRequest& request,
                                SearchBudget& budget) {
    Cell& cell = cells_[slot];
    if (cell.version == slots.version(slot)) return cell.reason;
    return decide(cell, slots, slot, request, budget);
  }

 private:
  struct Cell {
    std::uint64_t version = 0;  // of the node; 0: nothing is kept
    std::optional<Reason> reason;
  };
  static std::optional<Reason> decide(Cell& cell, const NodeSlots& slots, NodeSlot slot,
                                      const GpuRequest& request, SearchBudget& budget);

  std::vector<Cell> cells_;  // by slot
};

struct ScoreCell {
  std::uint64_t version = 0;  // of the node; 0: nothing is kept
  Scored scored;
};

// How good each node is, by the latest price snapshot that was asked about.
class ScoreCache {
 public:
  // False where a later price snapshot has been asked about.
  bool serves(const PriceSnapshot* price_snapshot) const;
  // Before score(). REQUIRES: serves(price snapshot).
  void use(const PriceSnapshot* price_snapshot, const NodeSlots& slots);
  // By that price snapshot.
  Scored score(const NodeSlots& slots, NodeSlot slot, const PlacementContext& context,
               const PolicyChoice& policy, SearchBudget& budget) {
    ScoreCell& cell = now_.cells[slot];
    if (cell.version == slots.version(slot)) return cell.scored;
    return decide(cell, slots, slot, context, policy, budget);
  }

  // Whether it was asked for lately; to be asked once for each price snapshot.
  bool in_use() { return idle_markets_++ < kIdleRefreshesMax; }
  // What use() of this price snapshot finds, by slot.
  void prewarm(const PriceSnapshot& price_snapshot, std::vector<ScoreCell> cells);

 private:
  struct Found {
    const PriceSnapshot* price_snapshot = nullptr;
    std::uint64_t version = 0;  // the price snapshot's: another may come to stand in its place
    std::vector<ScoreCell> cells;

    bool by(const PriceSnapshot* other) const;
  };
  static Scored decide(ScoreCell& cell, const NodeSlots& slots, NodeSlot slot,
                       const PlacementContext& context, const PolicyChoice& policy,
                       SearchBudget& budget);

  Found now_;
  Found ahead_;
  int idle_markets_ = 0;
};

// What ScoreCache keeps of a node. Pure.
Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget);

// The tables of the kRequestKeysMax shapes that were asked for last.
template <class Table>
class DecisionCache {
 public:
  struct Entry {
    RequestKey shape;
    Table table;
  };

  Table& of(const RequestKey& shape);
  // Null where none is kept.
  Table* find(const RequestKey& shape);
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }

 private:
  std::vector<std::unique_ptr<Entry>> entries_;  // the one used last comes first
};

}  // namespace mgpu::extender
