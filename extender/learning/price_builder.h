// Makes price snapshots: what the window has learned and what the ledger has free become prices,
// and these the tables that decisions read. One thread at a time; never the one that answers
// requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger.h"
#include "extender/pricing/model_prior.h"
#include "extender/pricing/refinement.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// The workload of FGD's policy, and that of prices.
inline constexpr double kTargetCover = 0.95;
inline constexpr double kPricedCover = 1;

// What the pods to come are thought to be.
using CountClasses = std::function<std::vector<CountedClass>()>;

class PriceBuilder {
 public:
  // The ledger and the current prices outlive it.
  PriceBuilder(Ledger& ledger, CurrentPrices& board, CountClasses count_classes);

  // A price snapshot of now takes the place of the one before, refined online. The first is made
  // from nothing, which takes seconds in a cluster of thousands of nodes: until it is there, one
  // made in haste stands on the current prices. Each comes with the scores of pods that were asked
  // about lately, so that requests do not wait for them. Where `go_on` says no, it ends soon and
  // what there is stands there.
  void make(
      Instant now, const GoOn& go_on = [] { return true; });

 private:
  // Sets kinds_ and largest_.
  std::vector<NodeRoom> look(Instant now);
  // `price snapshot` has its workload.
  void publish(PriceSnapshot price_snapshot, const std::vector<NodeRoom>& rooms, Prices start,
               const Refinement& how, Instant now, const GoOn& go_on);

  Ledger& ledger_;
  CurrentPrices& board_;
  CountClasses count_classes_;
  Kinds kinds_;
  LargestNodes largest_;
  MarketPtr last_;  // null: none made yet
};

// When the next price snapshot is due: after a tenth more pods than there were, at most every
// `most` pods. Early price snapshots are made often, since little is known.
bool is_due(std::uint64_t pods_now, std::uint64_t pods_then, std::uint64_t most);

}  // namespace mgpu::extender
