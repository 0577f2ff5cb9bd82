// Workloads and price snapshots as text.
//
//   workload := class (", " class)*
//   class    := weight " x " request ("@" cores)? (" on " model)?
//
//   "3 x 50/1000@8, 1 x wholex8@64 on A100"     the weights are relative
#pragma once

#include <string_view>
#include <vector>

#include "extender/pricing/price_snapshot.h"
#include "test/support/cluster_text.h"

namespace mgpu::test {

extender::Workload workload_text(std::string_view text);

// The kinds of cards of these nodes.
extender::Kinds kinds_of(const std::vector<extender::Node>& nodes);

// The prices for these nodes, without previous prices.
extender::PriceSnapshot price_snapshot_of(std::string_view workload,
                                          const std::vector<extender::Node>& nodes);

// A node in the grammar of cluster_text.h, with this amount of CPU and memory, all of it free.
extender::Node node_with_host(std::string_view text, std::int64_t cores, std::int64_t gib);

}  // namespace mgpu::test
