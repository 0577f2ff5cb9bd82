// The price snapshot in use. A new one replaces it in one step; a decision holds the one that it
// began with until it ends. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "extender/pricing/price_snapshot.h"

namespace mgpu::extender {

using PriceSnapshotPtr = std::shared_ptr<const PriceSnapshot>;

class CurrentPrices {
 public:
  // Null until the first is published.
  PriceSnapshotPtr current() const {
    const MutexLock lock(mutex_);
    return price_snapshot_;
  }
  void publish(PriceSnapshotPtr price_snapshot, Instant now = {}) {
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
  PriceSnapshotPtr price_snapshot_ MGPU_GUARDED_BY(mutex_);
  Instant since_ MGPU_GUARDED_BY(mutex_){};
};

}  // namespace mgpu::extender
