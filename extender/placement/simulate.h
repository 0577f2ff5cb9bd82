// Places pods on copies of nodes, one after the other, as filter and bind would. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/holds.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"
#include "extender/placement/score.h"

namespace mgpu::extender {

// Counts a pod on a copy of its node.
void occupy(Node& node, const std::vector<CardHold>& pod, const NodeResources& resources);

// Whether the node's CPU, main memory and number of pods allow the pod. True if they are not known.
bool may_have_resources_for(const Node& node, const NodeResources& resources);

struct SimulatedPod {
  std::size_t node = 0;  // position in the nodes
  Placement placement;
};

class Simulation {
 public:
  // `nodes` are sorted by name. `request` outlives this. The price snapshot may be null.
  Simulation(std::vector<Node> nodes, const GpuRequest& request, const NodeResources& resources,
             const PolicyChoice& policy, std::uint64_t seed, const PriceSnapshot* price_snapshot);

  // Scores the nodes. False if `budget` or `go_on` ended it before all had a score.
  bool begin(SearchBudget& budget, const std::function<bool()>& go_on);
  // Places the next pod on the best node; nothing if it fits on none. REQUIRES: begin().
  std::optional<SimulatedPod> place_next(SearchBudget& budget);

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  PlacementContext context() const { return {request_, resources_, seed_, price_snapshot_}; }
  Scored score(const Node& node, SearchBudget& budget) const;
  std::optional<std::size_t> best() const;

  std::vector<Node> nodes_;
  const GpuRequest& request_;
  const NodeResources resources_;
  const PolicyChoice policy_;
  std::uint64_t seed_;
  const PriceSnapshot* const price_snapshot_;
  std::vector<Scored> scores_;
};

}  // namespace mgpu::extender
