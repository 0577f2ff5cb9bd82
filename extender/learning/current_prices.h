// Where the price snapshot stands that decisions are made by: swapped in one step by whoever makes
// price snapshots, held by a decision for as long as it lasts. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {

using MarketPtr = std::shared_ptr<const PriceSnapshot>;

class CurrentPrices {
 public:
  // Null until the first is published.
  MarketPtr current() const {
    const MutexLock lock(mutex_);
    return price_snapshot_;
  }
  // The price snapshot before it ends with the last decision that holds it.
  void publish(MarketPtr price_snapshot, Instant now = {}) {
    const MutexLock lock(mutex_);
    price_snapshot_.swap(price_snapshot);
    since_ = now;
  }
  // When the current price snapshot was published.
  Instant since() const {
    const MutexLock lock(mutex_);
    return since_;
  }

 private:
  mutable Mutex mutex_;
  MarketPtr price_snapshot_ MGPU_GUARDED_BY(mutex_);
  Instant since_{};  // the same
};

}  // namespace mgpu::extender
