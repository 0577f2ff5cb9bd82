// All that a decision may know of the pod to be placed and of those to come. Pure.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/node_resources.h"

namespace mgpu::extender {

struct Market;

// Refers to what its maker owns; lives no longer than one decision.
struct Ask {
  // A request of which nothing else is known.
  Ask(const GpuRequest& its_request) : request(its_request) {}  // NOLINT: the plain case
  Ask(const GpuRequest& its_request, const HostAmount& its_host, std::uint64_t its_draw,
      const Market* its_market)
      : request(its_request), host(its_host), draw(its_draw), market(its_market) {}

  const GpuRequest& request;
  HostAmount host;                 // what the pod takes of the node beside cards
  std::uint64_t draw = 0;          // the pod's own number, for choices that shall look random
  const Market* market = nullptr;  // what is known of the pods to come (market.h); null: nothing
};

// The number of the pod with this uid: FNV-1a of it, so that every replica draws the same.
std::uint64_t draw_of(const PodUid& uid);

}  // namespace mgpu::extender
