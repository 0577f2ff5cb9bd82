// Node records by name: what a filter looks up thousands of times. Part of the ledger; used under
// its lock.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace mgpu::ledger {

struct NodeRecord;

class NameIndex {
 public:
  // REQUIRES: no record of this name. The record keeps its address until erase().
  void insert(const std::string& name, NodeRecord& record) { records_.emplace(name, &record); }
  // REQUIRES: a record of this name.
  void erase(const std::string& name) { records_.erase(name); }
  // Null where there is none.
  NodeRecord* find(std::string_view name) const {
    const auto found = records_.find(name);
    return found == records_.end() ? nullptr : found->second;
  }

 private:
  // Finds a name without making a string of it.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  boost::unordered_flat_map<std::string, NodeRecord*, Hash, std::equal_to<>> records_;
};

}  // namespace mgpu::ledger
