// Builds a new price snapshot whenever enough has changed, on a thread of its own, which leaves all
// that takes long to another thread with a low priority.
//
//   Idle --start()--> Polling --a refresh is due--> Building --> Polling
//                        ^
//                        +-- kPriceRefreshPoll
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "extender/learning/low_priority_thread.h"
#include "extender/learning/price_builder.h"
#include "extender/learning/workload_window.h"

namespace mgpu::extender {

// The counters at the beginning of a refresh.
struct RefreshState {
  std::uint64_t pods = 0;      // WorkloadWindow::pods_that_change_prices
  std::uint64_t releases = 0;  // LedgerReader::releases
  Instant began{};
  Duration took{0};
};

// The first refresh is due with the first pod; others are due by the pods seen (is_due), after
// kPriceRefreshPods releases, or kPriceAgeMax after the last if anything has changed. The wait
// after a refresh is at least kPriceRefreshRest times its duration. Pure.
bool is_refresh_due(const RefreshState& last, const RefreshState& now);

class PriceRefresher {
 public:
  using OnRefreshed = std::function<void(Duration took)>;  // called on the refresher's thread

  // All outlive the refresher.
  PriceRefresher(Ledger& ledger, CurrentPrices& current_prices, const WorkloadWindow& window,
                 const Executor& clock, OnRefreshed on_refreshed);
  // Ends a refinement that is in progress.
  ~PriceRefresher();
  PriceRefresher(const PriceRefresher&) = delete;
  PriceRefresher& operator=(const PriceRefresher&) = delete;

  // To be called when the ledger has the cluster's nodes and pods; later calls do nothing. Any
  // thread.
  void start();

 private:
  void run();
  bool ending();

  Ledger& ledger_;
  const WorkloadWindow& window_;
  const Executor& clock_;
  OnRefreshed on_refreshed_;
  LowPriorityThread computing_;
  PriceBuilder builder_;
  Mutex mutex_;
  ConditionVariable ended_;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
