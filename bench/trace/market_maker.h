// Where a run's decisions learn of the pods to come: whoever makes price snapshots is shown every
// pod that arrives, and puts its price snapshots on a current prices that the decisions read.
#pragma once

#include <functional>
#include <memory>

#include "bench/trace/objects.h"
#include "extender/learning/current_prices.h"
#include "extender/ledger/ledger.h"
#include "extender/pricing/workload.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::trace {

// One run's; not thread-safe.
class PriceMaker {
 public:
  virtual ~PriceMaker() = default;

  // The current prices may show no price snapshot at all.
  virtual std::shared_ptr<const extender::CurrentPrices> board() const = 0;
  // Called before the pod's own decision, as the extender meets it.
  virtual void seen(const extender::PodRequest& pod) = 0;
  // Called after each decision; the place for what the extender does in the background.
  virtual void refresh_if_due(extender::Ledger& ledger) = 0;
};

// Makes the price snapshot maker of one run; called from any thread.
using MakeMarketMaker = std::function<std::unique_ptr<PriceMaker>()>;

// Every pod of the list as often as it stands there, with FGD's bounds: pods that differ in main
// memory alone are one class, which asks for their mean; the most frequent classes that cover 95 %.
extender::Workload target_workload(const Objects& objects);

// How often prices are made anew, in pods, where a run goes as fast as it can.
inline constexpr std::uint64_t kPodsPerMarket = 100;

// The whole list is known from the first pod on: what FGD is given. Without prices the price
// snapshot is the same to the end; with prices they follow the cluster.
MakeMarketMaker known_workload(const Objects& objects, bool prices = false);
// Nothing is known but the pods that came before: what the extender has.
MakeMarketMaker learned_workload();

}  // namespace mgpu::trace
