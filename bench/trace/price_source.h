// The prices of a simulated extender. In the extender a thread refreshes them; here a price source
// refreshes them between two pods, so that runs are reproducible.
#pragma once

#include <functional>
#include <memory>

#include "bench/trace/objects.h"
#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger.h"
#include "extender/pricing/workload.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::trace {

// Each run has its own. Not thread-safe.
class PriceSource {
 public:
  virtual ~PriceSource() = default;

  // The prices that decisions read. They may have no snapshot yet.
  virtual std::shared_ptr<const extender::CurrentPrices> prices() const = 0;
  // Called with each pod before it is scheduled.
  virtual void observe(const extender::PodRequest& pod) = 0;
  // Called after each decision.
  virtual void refresh_if_due(extender::Ledger& ledger) = 0;
};

// Creates the price source of one run. Thread-safe.
using PriceSourceFactory = std::function<std::unique_ptr<PriceSource>()>;

// The workload of the whole list, with FGD's rules: pods that differ only in main memory form one
// class, which requests their mean, and only the most frequent classes that cover 95 % are kept.
extender::Workload target_workload(const Objects& objects);

// Number of pods between two refreshes of the prices.
inline constexpr std::uint64_t kPodsPerRefresh = 100;

// The whole list is known from the first pod on, as FGD assumes. If `prices` is not set, the
// snapshot has a workload but no prices and never changes.
PriceSourceFactory known_workload(const Objects& objects, bool prices = false);
// Only the pods that have arrived are known, as in the extender.
PriceSourceFactory learned_workload();

}  // namespace mgpu::trace
