// Where pods between filter and bind are expected to land, counted in Card::expected. Part of the
// ledger; used under its lock.
#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

#include "extender/ledger/limits.h"
#include "extender/ledger/node_record.h"

namespace mgpu::extender {

class Expectations {
 public:
  // Replaces the pod's earlier one. Over kExpectedPlacementsMax, the one that ends first goes.
  void note(const PodUid& uid, NodeRecord& node, std::vector<CardHold> holds, Instant until);
  // Unknown pods are ignored.
  void end(const PodUid& uid);
  // Those whose `until` is not after `now`. In time of their number.
  void expire(Instant now);
  // Before the node's cards change or its record goes.
  void end_on(NodeRecord& node);

  std::size_t size() const { return by_end_.size(); }

 private:
  struct Expectation {
    PodUid uid;
    NodeRecord* node;
    std::vector<CardHold> holds;
  };
  using ByEnd = std::multimap<Instant, Expectation>;

  ByEnd::iterator erase(ByEnd::iterator at);

  ByEnd by_end_;
  std::unordered_map<PodUid, ByEnd::iterator> by_uid_;
};

}  // namespace mgpu::extender
