// The nodes that are nearest to taking a pod which fits on none, of those that an explanation has
// examined: with how much smaller a request it would fit, which pods would have to end, and which
// cards would have to be uncordoned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extender/inspect/views.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/placement/nearest.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

class NearestNodes {
 public:
  // All outlive this. `least` is what a share of a card has at least. Nodes that are examined after
  // `steps` are left out.
  NearestNodes(const LedgerReader& ledger, const PodRequest& pod, const Share& least,
               std::uint32_t steps)
      : ledger_(ledger),
        pod_(pod),
        least_(least),
        budget_{steps},
        rooms_(pod.request.containers.size()) {}

  // Examines a node that the pod does not fit. `node` is what is left of it for the pod.
  void examine(const Node& node);

  // Sets "room", for each container if any node was examined, and "smallerRequests", "releases" and
  // "uncordons", each with at most kNearestMax nodes, the nearest first.
  void set(Json& out) const;

 private:
  struct Smaller {
    NodeName node;
    Shortfall shortfall;
    std::int64_t size = 0;
  };
  struct Release {
    NodeName node;
    std::vector<PodRef> pods;
  };

  struct Uncordon {
    NodeName node;
    std::vector<std::int32_t> cards;
  };

  void add_room(const Node& node);
  void add_shortfall(const Node& node);
  void add_release(const Node& node);
  void add_uncordon(const Node& node);

  const LedgerReader& ledger_;
  const PodRequest& pod_;
  const Share least_;
  SearchBudget budget_;
  bool examined_ = false;
  std::vector<MostRoom> rooms_;      // by container
  std::vector<Smaller> smaller_;     // ascending by size
  std::vector<Release> releases_;    // ascending by the number of pods
  std::vector<Uncordon> uncordons_;  // ascending by the number of cards
};

}  // namespace mgpu::extender
