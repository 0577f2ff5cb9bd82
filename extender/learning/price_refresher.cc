#include "extender/learning/price_refresher.h"

#include <utility>

#include "extender/learning/limits.h"

namespace mgpu::extender {

bool is_refresh_due(const RefreshState& last, const RefreshState& now) {
  if (last.pods == 0) return now.pods > 0;
  const bool pods = is_due(now.pods, last.pods, kPriceRefreshPods);
  const std::uint64_t released = now.releases - last.releases;
  const bool changed = now.pods != last.pods || released > 0;
  const bool old = changed && now.began - last.began >= kPriceAgeMax;
  if (!pods && released < kPriceRefreshPods && !old) return false;
  // So refreshes take at most a tenth of the time of one processor, however large the cluster is.
  return now.began - last.began >= last.took * (kPriceRefreshRest + 1);
}

PriceRefresher::PriceRefresher(Ledger& ledger, CurrentPrices& current_prices,
                               const WorkloadWindow& window, const Executor& clock,
                               OnRefreshed on_refreshed)
    : ledger_(ledger),
      window_(window),
      clock_(clock),
      on_refreshed_(std::move(on_refreshed)),
      builder_(
          ledger, current_prices, [&window] { return window.counted(); },
          [this](const auto& computation) { computing_.run(computation); }) {}

PriceRefresher::~PriceRefresher() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    thread.swap(thread_);
  }
  ended_.notify_all();
  // Without the lock, which the thread takes before it ends.
  if (thread.joinable()) thread.join();
}

void PriceRefresher::start() {
  const MutexLock lock(mutex_);
  if (ending_ || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
}

bool PriceRefresher::ending() {
  const MutexLock lock(mutex_);
  return ending_;
}

void PriceRefresher::run() {
  RefreshState last;
  for (;;) {
    RefreshState now{window_.pods_that_change_prices(), ledger_.reader().releases(), clock_.now(),
                     Duration{0}};
    if (is_refresh_due(last, now)) {
      builder_.build(now.began, [this] { return !ending(); });
      now.took = clock_.now() - now.began;
      last = now;
      on_refreshed_(now.took);
    }
    MutexLock lock(mutex_);
    const auto ending = [this]() MGPU_REQUIRES(mutex_) { return ending_; };
    if (ended_.wait_for(lock, kPriceRefreshPoll, ending)) return;
  }
}

}  // namespace mgpu::extender
