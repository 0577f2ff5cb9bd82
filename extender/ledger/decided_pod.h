// Pods that are not bound yet, as decisions and reservations know them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "extender/placement/holds.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

// The pod that a decision is about. What is reserved for itself, or for a pod of lower priority, is
// free to it. Without a uid, everything is. Its searches count against the allowance of the
// namespace (search_allowances.h), and without one against none.
struct DecidedPod {
  PodUid uid{};
  std::int32_t priority = 0;
  std::string name_space{};
  std::string group{};     // of pods that are bound together; empty: it is bound alone
  bool for_group = false;  // what is reserved for others of the group is free to it, too
  bool binds = false;      // the turns of others do not count
};

// What a pod is to get on one node.
struct NominatedPlacement {
  NodeName node;
  std::vector<CardHold> holds;
  NodeResources resources;  // what it requests beside cards
  bool operator==(const NominatedPlacement&) const = default;
};

}  // namespace mgpu::extender
