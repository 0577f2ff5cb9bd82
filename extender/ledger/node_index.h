// The node records by name and by slot. A slot is a small number, so that what a filter reads for
// thousands of nodes is contiguous in memory. Part of the ledger; used under its lock.
#pragma once

#include <bit>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::extender {

struct NodeRecord;

// Less than the largest number of records that there have been at one time.
using NodeSlot = std::uint32_t;

// Reads a name eight characters at a time, of which the last eight overlap the ones before. filter
// searches for thousands of names, so that these functions are inline and call no others.
struct NodeNameWords {
  using is_transparent = void;
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  static std::uint64_t word_at(std::string_view name, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, name.data() + at, kWord);
    return word;
  }
};

// Hashes a name without making a string of it, with the step of FxHash; the map mixes the result.
struct NodeNameHash : NodeNameWords {
  std::size_t operator()(std::string_view name) const {
    std::uint64_t hash = name.size();
    const auto add = [&hash](std::uint64_t word) {
      hash = (std::rotl(hash, 5) ^ word) * 0x517CC1B727220A95;
    };
    if (name.size() < kWord) {
      for (const char c : name) add(static_cast<unsigned char>(c));
      return hash;
    }
    const std::size_t last = name.size() - kWord;
    for (std::size_t at = 0; at < last; at += kWord) add(word_at(name, at));
    add(word_at(name, last));
    return hash;
  }
};

struct NodeNameEqual : NodeNameWords {
  bool operator()(std::string_view a, std::string_view b) const {
    if (a.size() != b.size()) return false;
    if (a.size() < kWord) return a == b;
    const std::size_t last = a.size() - kWord;
    for (std::size_t at = 0; at < last; at += kWord)
      if (word_at(a, at) != word_at(b, at)) return false;
    return word_at(a, last) == word_at(b, last);
  }
};

class NodeIndex {
 public:
  // The record keeps its address until erase(). REQUIRES: the name is not in the index.
  NodeSlot insert(const std::string& name, NodeRecord& record) {
    if (free_.empty()) {
      free_.push_back(static_cast<NodeSlot>(records_.size()));
      versions_.push_back(1);
      records_.push_back(nullptr);
    }
    const NodeSlot slot = free_.back();
    free_.pop_back();
    records_[slot] = &record;
    slots_.emplace(name, slot);
    return slot;
  }
  // REQUIRES: the name is in the index.
  void erase(const std::string& name) {
    const auto found = slots_.find(name);
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
  // Null where the slot is free.
  NodeRecord* record(NodeSlot slot) const { return records_[slot]; }
  // Greater than 0. It increases with every change that may affect a decision, and also when
  // another record takes the slot.
  std::uint64_t version(NodeSlot slot) const { return versions_[slot]; }
  void changed(NodeSlot slot) { ++versions_[slot]; }
  // The number of slots, free ones included.
  std::size_t size() const { return records_.size(); }

 private:
  boost::unordered_flat_map<std::string, NodeSlot, NodeNameHash, NodeNameEqual> slots_;
  std::vector<std::uint64_t> versions_;
  std::vector<NodeRecord*> records_;
  std::vector<NodeSlot> free_;
};

}  // namespace mgpu::extender
