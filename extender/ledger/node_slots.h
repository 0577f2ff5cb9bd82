// A number for each node record, and by these numbers, side by side, what is asked of thousands of
// nodes at a time: a record is far apart from the next one. Part of the ledger; used under its
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mgpu::extender {

struct NodeRecord;

// Below the most records that there have been at a time. Its own while the record lives.
using NodeSlot = std::uint32_t;

class NodeSlots {
 public:
  // The record keeps its address until give_back().
  NodeSlot take(NodeRecord& record) {
    if (free_.empty()) {
      versions_.push_back(1);
      records_.push_back(&record);
      return static_cast<NodeSlot>(records_.size() - 1);
    }
    const NodeSlot slot = free_.back();
    free_.pop_back();
    records_[slot] = &record;
    return slot;
  }
  void give_back(NodeSlot slot) {
    changed(slot);
    records_[slot] = nullptr;
    free_.push_back(slot);
  }

  // Null where the slot is free.
  NodeRecord* record(NodeSlot slot) const { return records_[slot]; }
  // Above 0. Rises with every change of what a decision may go by; of the records that have a slot
  // in turn, none has the version of another.
  std::uint64_t version(NodeSlot slot) const { return versions_[slot]; }
  void changed(NodeSlot slot) { ++versions_[slot]; }
  // Free ones among them.
  std::size_t size() const { return records_.size(); }

 private:
  std::vector<std::uint64_t> versions_;
  std::vector<NodeRecord*> records_;
  std::vector<NodeSlot> free_;
};

}  // namespace mgpu::extender
