// Keeps the market up to date beside the requests: a thread of its own, of the lowest priority that
// still runs, that looks a few times a second and makes a market when enough has changed.
//
//   Idle --start()--> Looking --enough has changed--> Making --> Looking
//                        ^            and not made for a while
//                        +-- kMarketLook
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "common/base/executor.h"
#include "extender/learning/limits.h"
#include "extender/learning/price_builder.h"
#include "extender/learning/workload_window.h"

namespace mgpu::extender {

// Where the market stood when one was made last.
struct Standing {
  std::uint64_t pods = 0;      // seen
  std::uint64_t releases = 0;  // of the ledger
  Instant began{};
  Duration took{0};
};

// Whether a market is worth making: the first with the first pod; others by the pods seen (is_due),
// or by as many shares that came free, or since anything changed kMarketAge ago. No sooner
// than kMarketRest times what the last one took after its end. Pure.
bool is_worth_making(const Standing& last, const Standing& now);

class Keeper {
 public:
  using OnMade = std::function<void(Duration took)>;  // from the keeper's thread

  // All outlive the keeper. `clock` is asked for the time only.
  Keeper(Ledger& ledger, Board& board, const WorkloadWindow& window, const Executor& clock,
         OnMade on_made);
  // A market that is being made is not finished.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // To be called once the ledger holds the cluster; later calls do nothing. Any thread.
  void start();

 private:
  void run();
  bool ending();
  // False when it is to end.
  bool wait_a_look();
  Standing standing() const;
  void make(Standing now);

  Ledger& ledger_;
  const WorkloadWindow& window_;
  const Executor& clock_;
  OnMade on_made_;
  Maker maker_;
  Standing last_;  // of the thread
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;  // protected by mutex_
  std::thread thread_;   // protected by mutex_
};

}  // namespace mgpu::extender
