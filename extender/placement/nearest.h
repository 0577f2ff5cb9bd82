// How far a node is from taking a pod that does not fit it. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

// The pod would fit if this container requested that much less of each of its cards.
struct Shortfall {
  std::size_t container = 0;  // index into request.containers
  Share share;
};

// Nothing if no smaller request of one container makes the pod fit: there are too few matching and
// usable cards, the container requests whole cards, it would request less than `least` of a card,
// or more than one container would have to request less. The search takes the steps of `budget`.
std::optional<Shortfall> shortfall_of(const Node& node, const GpuRequest& request,
                                      const Share& least, SearchBudget& budget);

// The most that nodes have for one container.
struct MostRoom {
  std::int32_t cards = 0;       // usable cards of one node that have room for it
  std::optional<Share> free{};  // on the usable card that lacks the least
  std::int64_t lacks = 0;       // what that card lacks, as size_of
  Share largest{};              // the capacity of the matching card with the most memory

  void add(const Node& node, const CardSelector& selector, const ContainerRequest& container);
};

// The sum of the parts of a card that it lacks, in thousandths of a card of `capacity`.
std::int64_t size_of(const Shortfall& shortfall, const Share& capacity);

}  // namespace mgpu::extender
