// Workloads and price snapshots as text.
//
//   workload := class (", " class)*
//   class    := weight " x " request ("@" cores)? (" on " model)?
//
//   "3 x 50/1000@8, 1 x wholex8@64 on A100"     weights need not sum up to anything
#pragma once

#include <string_view>
#include <vector>

#include "extender/pricing/price_snapshot.h"
#include "test/support/cluster_text.h"

namespace mgpu::test {

extender::Workload workload_text(std::string_view text);

// The kinds of card that these nodes have.
extender::Kinds kinds_of(const std::vector<extender::Node>& nodes);

// Refined on these nodes from nothing.
extender::PriceSnapshot market_of(std::string_view workload,
                                  const std::vector<extender::Node>& nodes);

// `text` of cluster_text.h with this much CPU and memory, all of it free.
extender::Node node_with_host(std::string_view text, std::int64_t cores, std::int64_t gib);

}  // namespace mgpu::test
