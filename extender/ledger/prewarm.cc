// Scores by a market that is not in use yet, found before it is.
//
// A new market makes every kept score stale, and the first pod after it would wait until all nodes
// are scored again, under the ledger's lock. Here the thread that made the market does this first.
// It copies a few nodes under the lock, scores the copies without it, and goes on with the next
// ones, so that verbs wait for no more than one such copy.
//
// While this goes on nodes change. A score is stored with the version of the node that was copied,
// and where the node has another by the time it is asked for, ScoreTable decides anew. Therefore
// nothing here needs to notice changes. O(shapes in use * nodes), and as many cells of memory.
#include <utility>

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
class Ahead {
 public:
  explicit Ahead(const Shape& shape) : shape_(shape) {
    request_.containers = shape.containers;
    request_.selector = shape.selector;
  }

  const Shape& shape() const { return shape_; }
  void score(std::span<const NodeCopy> nodes, const Market& market) {
    // Policies that draw are not kept: any number will do.
    const Ask ask(request_, shape_.host, 0, &market);
    for (const NodeCopy& copy : nodes) {
      SearchBudget budget{kPlacementStepsMax};
      if (copy.slot >= cells_.size()) cells_.resize(copy.slot + 1);
      cells_[copy.slot] = {copy.version, score_of(copy.node, ask, shape_.policy, budget)};
    }
  }
  std::vector<ScoreCell> take() { return std::move(cells_); }

 private:
  Shape shape_;
  GpuRequest request_;
  std::vector<ScoreCell> cells_;
};

std::vector<Ahead> shapes_in_use(const ShapeMemo<ScoreTable>& scores) {
  std::vector<Ahead> shapes;
  for (const auto& entry : scores.entries())
    if (entry->table.in_use()) shapes.emplace_back(entry->shape);
  return shapes;
}

}  // namespace

void Ledger::score_ahead(const Market& market, const std::function<bool()>& go_on) {
  std::unique_lock lock(mutex_);
  std::vector<Ahead> shapes = shapes_in_use(state_->scores);
  NodeCopies nodes;
  for (NodeSlot begin = 0; !shapes.empty() && begin < state_->slots.size(); begin += kCopyStep) {
    nodes.take(state_->slots, begin);
    lock.unlock();
    for (Ahead& shape : shapes) shape.score(nodes.all(), market);
    if (!go_on()) return;
    lock.lock();
  }
  for (Ahead& shape : shapes)
    if (ScoreTable* table = state_->scores.find(shape.shape()))
      table->set_ahead(market, shape.take());
}

}  // namespace mgpu::extender
