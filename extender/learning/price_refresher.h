// Keeps the price snapshot up to date beside the requests: a thread of its own, of the lowest
// priority that still runs, that looks a few times a second and makes a price snapshot when enough
// has changed.
//
//   Idle --start()--> Looking --enough has changed--> Making --> Looking
//                        ^            and not made for a while
//                        +-- kPriceRefreshPoll
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "extender/learning/limits.h"
#include "extender/learning/price_builder.h"
#include "extender/learning/workload_window.h"

namespace mgpu::extender {

// Where the price snapshot stood when one was made last.
struct RefreshState {
  std::uint64_t pods = 0;      // seen
  std::uint64_t releases = 0;  // of the ledger
  Instant began{};
  Duration took{0};
};

// Whether a price snapshot is worth making: the first with the first pod; others by the pods seen
// (is_due), or by as many shares that came free, or since anything changed kPriceAgeMax ago. No
// sooner than kPriceRefreshRest times what the last one took after its end. Pure.
bool is_refresh_due(const RefreshState& last, const RefreshState& now);

class PriceRefresher {
 public:
  using OnMade = std::function<void(Duration took)>;  // from the refresher's thread

  // All outlive the refresher. `clock` is asked for the time only.
  PriceRefresher(Ledger& ledger, CurrentPrices& board, const WorkloadWindow& window,
                 const Executor& clock, OnMade on_made);
  // A price snapshot that is being made is not finished.
  ~PriceRefresher();
  PriceRefresher(const PriceRefresher&) = delete;
  PriceRefresher& operator=(const PriceRefresher&) = delete;

  // To be called once the ledger holds the cluster; later calls do nothing. Any thread.
  void start();

 private:
  void run();
  bool ending();
  // False when it is to end.
  bool wait_a_look();
  RefreshState standing() const;
  void make(RefreshState now);

  Ledger& ledger_;
  const WorkloadWindow& window_;
  const Executor& clock_;
  OnMade on_made_;
  PriceBuilder maker_;
  RefreshState last_;  // of the thread
  Mutex mutex_;
  ConditionVariable ended_;
  bool ending_ MGPU_GUARDED_BY(mutex_) = false;
  std::thread thread_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::extender
