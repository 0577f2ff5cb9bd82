// Scores by a price snapshot that is not in use yet, found before it is.
//
// A new price snapshot makes every kept score stale, and the first pod after it would wait until
// all nodes are scored again, under the ledger's lock. Here the thread that made the price snapshot
// does this first. It copies a few nodes under the lock, scores the copies without it, and goes on
// with the next ones, so that verbs wait for no more than one such copy.
//
// While this goes on nodes change. A score is stored with the version of the node that was copied,
// and where the node has another by the time it is asked for, ScoreCache decides anew. Therefore
// nothing here needs to notice changes. O(shapes in use * nodes), and as many cells of memory.
#include <utility>

#include "common/base/mutex.h"
#include "extender/ledger/ledger_state.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

// Nodes that are copied under one hold of the lock, which takes some 20 microseconds.
constexpr std::size_t kCopyStep = 32;

struct NodeCopy {
  NodeSlot slot = 0;
  std::uint64_t version = 0;
  Node node;
};

// A few nodes at a time, in memory that is used again for the next ones.
class NodeCopies {
 public:
  void take(const NodeSlots& slots, NodeSlot begin) {
    count_ = 0;
    for (NodeSlot slot = begin; slot < slots.size() && slot < begin + kCopyStep; ++slot) {
      const NodeRecord* record = slots.record(slot);
      if (record != nullptr && record->present) add(slot, slots.version(slot), record->node);
    }
  }
  std::span<const NodeCopy> all() const { return std::span(copies_).first(count_); }

 private:
  void add(NodeSlot slot, std::uint64_t version, const Node& node) {
    if (count_ == copies_.size()) copies_.emplace_back();
    NodeCopy& copy = copies_[count_++];
    copy.slot = slot;
    copy.version = version;
    copy.node = node;
  }

  std::vector<NodeCopy> copies_;
  std::size_t count_ = 0;
};

// One shape's scores.
class Prewarm {
 public:
  explicit Prewarm(const RequestKey& shape) : shape_(shape) {
    request_.containers = shape.containers;
    request_.selector = shape.selector;
  }

  const RequestKey& shape() const { return shape_; }
  void score(std::span<const NodeCopy> nodes, const PriceSnapshot& price_snapshot) {
    // Policies that draw are not kept: any number will do.
    const PlacementContext context(request_, shape_.host, 0, &price_snapshot);
    for (const NodeCopy& copy : nodes) {
      SearchBudget budget{kPlacementStepsMax};
      if (copy.slot >= cells_.size()) cells_.resize(copy.slot + 1);
      cells_[copy.slot] = {copy.version, score_of(copy.node, context, shape_.policy, budget)};
    }
  }
  std::vector<ScoreCell> take() { return std::move(cells_); }

 private:
  RequestKey shape_;
  GpuRequest request_;
  std::vector<ScoreCell> cells_;
};

std::vector<Prewarm> shapes_in_use(const DecisionCache<ScoreCache>& scores) {
  std::vector<Prewarm> shapes;
  for (const auto& entry : scores.entries())
    if (entry->table.in_use()) shapes.emplace_back(entry->shape);
  return shapes;
}

}  // namespace

void Ledger::score_ahead(const PriceSnapshot& price_snapshot, const std::function<bool()>& go_on) {
  MutexLock lock(mutex_);
  std::vector<Prewarm> shapes = shapes_in_use(state_->scores);
  NodeCopies nodes;
  for (NodeSlot begin = 0; !shapes.empty() && begin < state_->slots.size(); begin += kCopyStep) {
    nodes.take(state_->slots, begin);
    lock.unlock();
    for (Prewarm& shape : shapes) shape.score(nodes.all(), price_snapshot);
    if (!go_on()) return;
    lock.lock();
  }
  for (Prewarm& shape : shapes)
    if (ScoreCache* table = state_->scores.find(shape.shape()))
      table->prewarm(price_snapshot, shape.take());
}

}  // namespace mgpu::extender
