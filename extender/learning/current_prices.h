// Where the market stands that decisions are made by: swapped in one step by whoever makes markets,
// held by a decision for as long as it lasts. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "common/base/executor.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {

using MarketPtr = std::shared_ptr<const Market>;

class Board {
 public:
  // Null until the first is published.
  MarketPtr current() const {
    const std::lock_guard lock(mutex_);
    return market_;
  }
  // The market before it ends with the last decision that holds it.
  void publish(MarketPtr market, Instant now = {}) {
    const std::lock_guard lock(mutex_);
    market_.swap(market);
    since_ = now;
  }
  // When the current market was published.
  Instant since() const {
    const std::lock_guard lock(mutex_);
    return since_;
  }

 private:
  mutable std::mutex mutex_;
  MarketPtr market_;  // protected by mutex_
  Instant since_{};   // the same
};

}  // namespace mgpu::extender
