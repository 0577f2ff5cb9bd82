#include "extender/learning/price_refresher.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "common/base/mutex.h"
#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

constexpr int kNice = 15;

// Requests come first. Where it is not allowed, the thread runs as the others do.
void lower_own_priority() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

}  // namespace

bool is_refresh_due(const RefreshState& last, const RefreshState& now) {
  if (last.pods == 0) return now.pods > 0;
  const bool pods = is_due(now.pods, last.pods, kPriceRefreshPods);
  const std::uint64_t released = now.releases - last.releases;
  const bool changed = now.pods != last.pods || released > 0;
  const bool old = changed && now.began - last.began >= kPriceAgeMax;
  if (!pods && released < kPriceRefreshPods && !old) return false;
  return now.began - last.began >= last.took * (kPriceRefreshRest + 1);
}

PriceRefresher::PriceRefresher(Ledger& ledger, CurrentPrices& board, const WorkloadWindow& window,
                               const Executor& clock, OnMade on_made)
    : ledger_(ledger),
      window_(window),
      clock_(clock),
      on_made_(std::move(on_made)),
      maker_(ledger, board, [&window] { return window.counted(); }) {}

PriceRefresher::~PriceRefresher() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    thread.swap(thread_);
  }
  ended_.notify_all();
  if (thread.joinable()) thread.join();
}

void PriceRefresher::start() {
  const MutexLock lock(mutex_);
  if (ending_ || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
}

void PriceRefresher::run() {
  lower_own_priority();
  do {
    const RefreshState now = standing();
    if (is_refresh_due(last_, now)) make(now);
  } while (wait_a_look());
}

bool PriceRefresher::ending() {
  const MutexLock lock(mutex_);
  return ending_;
}

bool PriceRefresher::wait_a_look() {
  MutexLock lock(mutex_);
  return !ended_.wait_for(lock, kPriceRefreshPoll,
                          [this]() MGPU_REQUIRES(mutex_) { return ending_; });
}

RefreshState PriceRefresher::standing() const {
  return {window_.pods_seen(), ledger_.releases(), clock_.now(), Duration{0}};
}

void PriceRefresher::make(RefreshState now) {
  maker_.make(now.began, [this] { return !ending(); });
  now.took = clock_.now() - now.began;
  last_ = now;
  on_made_(now.took);
}

}  // namespace mgpu::extender
