// Builds price snapshots from the learned workload and the free cards in the ledger. Used by one
// thread at a time, which is never one that handles requests. That thread reads the ledger, a few
// nodes at a time; `compute` runs everything that takes long.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger.h"
#include "extender/pricing/refinement.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// The fractions of the pods seen that FGD's workload and the prices cover.
inline constexpr double kTargetCover = 0.95;
inline constexpr double kPricedCover = 1;

// Returns the workload that is expected.
using CountClasses = std::function<std::vector<CountedClass>()>;

class PriceBuilder {
 public:
  // The ledger and the current prices outlive the builder. `compute` runs a computation, on any
  // thread, and returns when it is done.
  PriceBuilder(
      Ledger& ledger, CurrentPrices& current_prices, CountClasses count_classes,
      Decisions::Compute compute = [](const auto& computation) { computation(); });

  // Builds and publishes a price snapshot, refined from the one before. The first is refined from
  // nothing, which takes seconds in a cluster of thousands of nodes; a quick one is in use until it
  // is complete. Before it is published, the ledger's scores of recent requests are computed by it,
  // so that requests do not wait for them. Once `go_on` returns false the refinement ends, and its
  // result is published.
  void build(
      Instant now, const GoOn& go_on = [] { return true; });

 private:
  Kinds count_kinds() const;
  std::vector<NodeRoom> read_rooms(const Kinds& kinds) const;
  PriceSnapshot expect_workload(const Kinds& kinds);
  void publish(PriceSnapshot price_snapshot, const Kinds& kinds, const std::vector<NodeRoom>& rooms,
               Prices start, const Refinement& how, Instant now, const GoOn& go_on);

  Ledger& ledger_;
  CurrentPrices& current_prices_;
  CountClasses count_classes_;
  Decisions::Compute compute_;
  PriceSnapshotPtr last_;  // null before the first
};

// Whether the next price snapshot is due by the number of pods seen, now and at the last one: after
// a tenth more pods, and at most every `most` pods. The first ones follow quickly, since each pod
// changes the learned workload much.
bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most);

}  // namespace mgpu::extender
