// How much of a cluster is allocated, and how much of what is free is fragmented, as the literature
// measures it:
//
//   GAR  allocated compute / compute of all cards                           (GPU allocation ratio)
//   GFR  partly allocated nodes / nodes with cards             (GPU node fragmentation ratio)
//   F    free compute that the expected pods cannot use        (FGD, target_workload.h)
//
// GAR and GFR are metrics of Kant (arXiv 2510.01256), which allocates whole GPUs; a share counts
// here as its part of a card. A node is partly allocated if some of its compute is allocated and
// some is free. FGD (Weng et al., USENIX ATC 2023) reports F as a part of all compute ("frag
// amount") and as a part of the free compute ("frag rate").
//
// Expected placements count as allocated. What a card that is unhealthy or blocked does not have
// allocated is neither allocated nor free. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "extender/placement/cluster.h"
#include "extender/pricing/target_workload.h"

namespace mgpu::extender {

struct ClusterUse {
  std::size_t nodes = 0;              // with cards
  std::size_t nodes_in_part = 0;      // of these, the partly allocated ones
  std::size_t nodes_partly_used = 0;  // of `nodes`, those with cards in use and others that are not
  std::size_t cards = 0;
  // Usable cards of which nothing is allocated, without MIG devices, which only pods get that name
  // them.
  std::size_t cards_free = 0;
  std::int64_t core = 0;  // what pods may hold, percent of a card
  std::int64_t core_allocated = 0;
  std::int64_t core_free = 0;
  std::int64_t core_free_mig = 0;       // of core_free, on MIG devices
  std::int64_t core_free_in_parts = 0;  // of the rest, on cards of which something is allocated
  std::int64_t memory = 0;              // MiB
  std::int64_t memory_allocated = 0;
  double fragmented = 0;        // F, in cards; 0 while the workload is not known
  bool workload_known = false;  // a target was given that is not empty

  // `target` may be null.
  void add(const Node& node, const TargetWorkload* target);

  // Each is 0 .. 1, and not set where it would be a part of nothing.
  std::optional<double> gpu_allocation_ratio() const;
  std::optional<double> memory_allocation_ratio() const;
  // core_free_in_parts of what is free on cards that are no MIG devices.
  std::optional<double> free_in_parts_ratio() const;
  std::optional<double> gpu_node_fragmentation_ratio() const;
  std::optional<double> fragmentation_amount() const;  // also not set while F is not known
  std::optional<double> fragmentation_rate() const;    // the same
};

}  // namespace mgpu::extender
