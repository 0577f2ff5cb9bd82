// All that a decision may take into account of the pod to be placed and of the pods expected after
// it. Pure.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct PriceSnapshot;

// Refers to values that the caller owns, and is used for one decision.
struct PlacementContext {
  // NOLINTNEXTLINE(google-explicit-constructor): a request alone is a context, too.
  PlacementContext(const GpuRequest& gpu_request, const NodeResources& node_resources = {},
                   std::uint64_t seed = 0, const PriceSnapshot* prices = nullptr)
      : request(gpu_request),
        resources(node_resources),
        tie_break_seed(seed),
        price_snapshot(prices) {}

  const GpuRequest& request;
  NodeResources resources;              // the CPU and main memory that the pod requests
  std::uint64_t tie_break_seed;         // a number of the pod, for choices that should look random
  const PriceSnapshot* price_snapshot;  // the expected workload; null if it is not known
  // Whether links decide between cards that are equally good otherwise (links.h). A score does not
  // depend on them, and is computed for thousands of nodes.
  bool by_links = true;
};

// FNV-1a of the pod's uid, so that every replica of the extender finds the same number.
inline std::uint64_t tie_break_seed_of(const PodUid& uid) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : uid.str()) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  return hash;
}

}  // namespace mgpu::extender
