// The node records by name and by slot. A slot is a small number, so that what a filter reads for
// thousands of nodes is contiguous in memory. Part of the ledger; used under its lock.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "extender/ledger/text_hash.h"

namespace mgpu::extender {

struct NodeRecord;

// Less than the largest number of records that there have been at one time.
using NodeSlot = std::uint32_t;

class NodeIndex {
 public:
  // The record keeps its address until erase(). REQUIRES: the name is not in the index.
  NodeSlot insert(const std::string& name, NodeRecord& record) {
    MGPU_DEBUG_CHECK(!slots_.contains(name), "a node is in the index once");
    if (free_.empty()) {
      free_.push_back(static_cast<NodeSlot>(records_.size()));
      versions_.push_back(1);
      records_.push_back(nullptr);
    }
    const NodeSlot slot = free_.back();
    free_.pop_back();
    MGPU_DEBUG_CHECK(records_[slot] == nullptr, "a free slot has no record");
    records_[slot] = &record;
    slots_.emplace(name, slot);
    MGPU_DEBUG_CHECK(
        slots_.size() + free_.size() == records_.size() && versions_.size() == records_.size(),
        "each slot has a name or is free");
    return slot;
  }
  // REQUIRES: the name is in the index.
  void erase(const std::string& name) {
    const auto found = slots_.find(name);
    MGPU_DEBUG_CHECK(found != slots_.end(), "a node that is erased is in the index");
    changed(found->second);
    records_[found->second] = nullptr;
    free_.push_back(found->second);
    slots_.erase(found);
  }

  std::optional<NodeSlot> find(std::string_view name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end()) return std::nullopt;
    return found->second;
  }
  // Null if the slot is free.
  NodeRecord* record(NodeSlot slot) const { return records_[slot]; }
  // Greater than 0. It increases with every change that may affect a decision, and also when
  // another record takes the slot.
  std::uint64_t version(NodeSlot slot) const { return versions_[slot]; }
  void changed(NodeSlot slot) { ++versions_[slot]; }
  // The number of slots, free ones included.
  std::size_t size() const { return records_.size(); }

 private:
  boost::unordered_flat_map<std::string, NodeSlot, TextHash, TextEqual> slots_;
  std::vector<std::uint64_t> versions_;
  std::vector<NodeRecord*> records_;
  std::vector<NodeSlot> free_;
};

}  // namespace mgpu::extender
