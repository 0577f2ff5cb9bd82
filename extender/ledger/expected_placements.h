// The placements that pods between filter and bind are expected to get, counted in Card::expected.
// Part of the ledger; used under its lock.
#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"

namespace mgpu::extender {

class ExpectedPlacements {
 public:
  // Replaces the earlier one of the pod. At kExpectedPlacementsMax, the one that ends first is
  // removed.
  void add(const PodUid& uid, NodeRecord& node, std::vector<CardHold> holds, Instant until);
  // A pod without one is ignored.
  void end(const PodUid& uid);
  // Removes those whose `until` is not after `now`. O(number of them).
  void expire(Instant now);
  // To be called before the node's cards change or its record is erased.
  void end_on(NodeRecord& node);

  std::size_t size() const { return by_end_.size(); }

 private:
  struct Expected {
    PodUid uid;
    NodeRecord* node;
    std::vector<CardHold> holds;
  };
  using ByEnd = std::multimap<Instant, Expected>;

  ByEnd::iterator erase(ByEnd::iterator at);

  ByEnd by_end_;
  std::unordered_map<PodUid, ByEnd::iterator> by_uid_;
};

}  // namespace mgpu::extender
