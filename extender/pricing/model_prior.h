// Pods like none that came, which come all the same: those that insist on a model of card. To the
// pods that are known, cards of a model that none of them insists on are the cheapest; they would
// be filled first, and be gone when somebody asks for them by name. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/pricing/node_room.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// Of all pods to come, spread evenly over the models: one whole card, and all cards of a node.
inline constexpr double kUnseenOfOneCard = 0.035;
inline constexpr double kUnseenOfANode = 0.007;

// How many cards of each kind a node has at most.
class LargestNodes {
 public:
  void add(const Node& node, const Kinds& kinds);
  std::int32_t cards_of(std::size_t kind) const { return kind < most_.size() ? most_[kind] : 0; }

 private:
  std::vector<std::int32_t> most_;  // by kind
};

// Adds these classes, `assumed`, behind the others, which become so much less probable. A workload
// of no classes, and one for a cluster of one model, stays as it is.
void add_model_prior(const Kinds& kinds, const LargestNodes& nodes, Workload& workload);

}  // namespace mgpu::extender
