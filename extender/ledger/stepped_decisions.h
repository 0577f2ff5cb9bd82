// Decisions about many nodes, with the ledger's lock held for a short time only.
//
// kube-scheduler sends thousands of nodes for every pod, and a tenant may create a pod for which
// each node takes a search of milliseconds. So the caller repeats three steps until done():
//
//   store   under the lock: caches the decisions of the last pass
//   read    under the lock: reads cached decisions, decides where that takes few steps, and copies
//           other nodes, until it has taken kHoldStepsMax steps or copied kNodeCopiesMax nodes
//   search  without the lock: decides on the copies
//
// A decision is cached with the version of the node that was copied, and is not used where the node
// has another version by then. Where anything on a node is reserved for other pods (nominations.h),
// the decision is always made about a copy, and never cached: it holds for this pod alone.
//
// A node is not copied where the decision about one of the same shape (placement/shape.h) was made,
// or is to be made, in the same call: it gets that decision. Part of the ledger.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "extender/ledger/decision_cache.h"
#include "extender/ledger/limits.h"
#include "extender/ledger/node_index.h"
#include "extender/ledger/node_record.h"
#include "extender/ledger/nominations.h"
#include "extender/placement/shape.h"

namespace mgpu::extender {

// A node with its slot in the index, to be used without the lock.
struct NodeCopy {
  NodeSlot slot = 0;
  std::uint64_t version = 0;
  Node node;
};

// How to decide on one node.
template <class Decision>
struct Decider {
  Decision absent;  // about a node that the API server does not have
  // The steps (placement/limits.h) of a decision.
  std::function<std::uint64_t(const Node&)> steps;
  std::function<Decision(const Node&)> decide;
  // Where anything is reserved for other pods: it is used in `available`.
  std::function<Decision(const Node& node, const Node& available)> decide_with_reservations;
  // Whether the next decision may be cached: a budget may be too small for it.
  std::function<bool()> keep;
  bool by_shape = false;  // nodes of the same shape have the same decision
};

template <class Decision>
class SteppedDecisions {
 public:
  // `names` and `pod` outlive the decisions.
  SteppedDecisions(std::span<const std::string_view> names, const DecidedPod& pod,
                   Decider<Decision> decider)
      : names_(names),
        pod_(pod),
        decider_(std::move(decider)),
        decisions_(names.size(), decider_.absent),
        kept_(names.size(), false),
        copies_(std::min(kNodeCopiesMax, names.size())) {}

  bool done() const { return next_ == names_.size() && copied_ == 0 && equal_.empty(); }

  // Null cells: decisions are not cached. Afterwards there is a cell for each slot of the index.
  void store(Cells<Decision>* cells, const NodeIndex& index) {
    if (cells != nullptr && cells->size() < index.size()) cells->resize(index.size());
    const auto store = [&](const Decided& node) {
      if (cells != nullptr && kept_[node.at])
        (*cells)[node.slot] = {node.version, decisions_[node.at]};
    };
    std::ranges::for_each(std::span(copies_).first(copied_), store, &Copy::of);
    std::ranges::for_each(equal_, store, &Equal::of);
    copied_ = 0;
    equal_.clear();
  }

  // Returns the steps taken. REQUIRES: store() has been called since search(), with the same lock.
  std::uint64_t read(Cells<Decision>* cells, const NodeIndex& index,
                     const Nominations& nominations) {
    MGPU_DEBUG_CHECK(copied_ == 0 && equal_.empty(), "decisions are stored before others are read");
    MGPU_DEBUG_CHECK(cells == nullptr || cells->size() >= index.size(),
                     "there is a cell for each slot");
    std::uint64_t steps = 0;
    NextSlots slots;
    std::size_t used = slots.size();
    while (next_ < names_.size() && copied_ < copies_.size() && steps < kHoldStepsMax) {
      if (used == slots.size()) {
        slots = find_next(index);
        used = 0;
      }
      const auto slot = slots[used++];
      steps += slot ? read_node(cells, index, *slot, nominations) : 1;
      ++next_;
    }
    return steps;
  }

  void search() {
    for (Copy& copy : std::span(copies_).first(copied_)) {
      kept_[copy.of.at] = !copy.has_reservations && decider_.keep();
      decisions_[copy.of.at] = copy.has_reservations
                                   ? decider_.decide_with_reservations(copy.node, copy.available)
                                   : decider_.decide(copy.node);
    }
    for (const Equal& equal : equal_) {
      kept_[equal.of.at] = kept_[equal.to];
      decisions_[equal.of.at] = decisions_[equal.to];
    }
  }

  // In the order of the names. REQUIRES: done().
  std::vector<Decision> take() {
    MGPU_DEBUG_CHECK(done(), "decisions are taken once all are made");
    return std::move(decisions_);
  }

 private:
  // The node of a decision.
  struct Decided {
    std::size_t at = 0;  // position of its name
    NodeSlot slot = 0;
    std::uint64_t version = 0;
  };
  // A node to decide on without the lock. Its memory is used again.
  struct Copy {
    Decided of;
    Node node;
    bool has_reservations = false;  // something is reserved for other pods, and used in `available`
    Node available;
  };
  // A node that gets the decision of the name at `to`.
  struct Equal {
    Decided of;
    std::size_t to = 0;
  };

  using NextSlots = std::array<std::optional<NodeSlot>, 32>;

  // Finds the next names. In a loop of its own the processor waits for several at a time.
  NextSlots find_next(const NodeIndex& index) const {
    NextSlots slots;
    const auto names = names_.subspan(next_).first(std::min(slots.size(), names_.size() - next_));
    std::ranges::transform(names, slots.begin(), [&](auto name) { return index.find(name); });
    return slots;
  }

  // Decides on node `next_`, or copies it. Returns the steps taken.
  std::uint64_t read_node(Cells<Decision>* cells, const NodeIndex& index, NodeSlot slot,
                          const Nominations& nominations) {
    if (nominations.has_reservations_on(pod_, names_[next_]))
      return copy_with_reservations(index, slot, nominations);
    const std::uint64_t version = index.version(slot);
    Cell<Decision>* cell = cells == nullptr ? nullptr : &(*cells)[slot];
    if (cell != nullptr && cell->version == version) {
      decisions_[next_] = cell->decision;
      return 1;
    }
    // There is no decision about a node that is absent, whose record need not be read before.
    if (!index.record(slot)->present) return 1;
    const Node& node = index.record(slot)->node;
    const std::uint64_t steps = decider_.steps(node);
    if (steps > kLockedDecisionStepsMax) {
      if (decider_.by_shape && take_decision_of_equal(index, slot)) return 1 + node.cards.size();
      copy_of(index, slot).has_reservations = false;
      return 1 + kCopySteps * node.cards.size();
    }
    const bool keep = decider_.keep();
    decisions_[next_] = decider_.decide(node);
    if (cell != nullptr && keep) *cell = {version, decisions_[next_]};
    return 1 + steps;
  }

  // Whether another node has the shape of node `next_`, which otherwise stands for its shape from
  // now on.
  bool take_decision_of_equal(const NodeIndex& index, NodeSlot slot) {
    const Decided here{next_, slot, index.version(slot)};
    const Node& node = index.record(slot)->node;
    const auto [found, is_new] = shapes_.try_emplace(shape_hash(node), here);
    const Decided& other = found->second;
    if (is_new) return false;
    if (index.version(other.slot) == other.version &&
        same_shape(index.record(other.slot)->node, node)) {
      equal_.push_back({here, other.at});
      return true;
    }
    found->second = here;
    return false;
  }

  // Copies node `next_` without and with what is reserved for other pods. Returns the steps taken.
  std::uint64_t copy_with_reservations(const NodeIndex& index, NodeSlot slot,
                                       const Nominations& nominations) {
    if (!index.record(slot)->present) return 1;
    Copy& copy = copy_of(index, slot);
    copy.has_reservations = true;
    copy.available = copy.node;
    nominations.count(pod_, copy.available);
    return 1 + 2 * kCopySteps * copy.node.cards.size();
  }

  Copy& copy_of(const NodeIndex& index, NodeSlot slot) {
    Copy& copy = copies_[copied_++];
    copy.of = {next_, slot, index.version(slot)};
    copy.node = index.record(slot)->node;
    return copy;
  }

  const std::span<const std::string_view> names_;
  const DecidedPod& pod_;
  const Decider<Decision> decider_;
  std::vector<Decision> decisions_;
  std::vector<bool> kept_;  // whether the decision may be cached
  std::vector<Copy> copies_;
  std::size_t copied_ = 0;
  std::vector<Equal> equal_;                           // to others, since the last pass
  std::unordered_map<std::uint64_t, Decided> shapes_;  // by shape_hash
  std::size_t next_ = 0;
};

}  // namespace mgpu::extender
