#include "extender/learning/price_refresher.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

constexpr int kNice = 15;

// Requests come first. Where it is not allowed, the thread runs as the others do.
void lower_own_priority() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

}  // namespace

bool is_worth_making(const Standing& last, const Standing& now) {
  if (last.pods == 0) return now.pods > 0;
  const bool pods = is_due(now.pods, last.pods, kMarketPods);
  const std::uint64_t released = now.releases - last.releases;
  const bool changed = now.pods != last.pods || released > 0;
  const bool old = changed && now.began - last.began >= kMarketAge;
  if (!pods && released < kMarketPods && !old) return false;
  return now.began - last.began >= last.took * (kMarketRest + 1);
}

Keeper::Keeper(Ledger& ledger, Board& board, const WorkloadWindow& window, const Executor& clock,
               OnMade on_made)
    : ledger_(ledger),
      window_(window),
      clock_(clock),
      on_made_(std::move(on_made)),
      maker_(ledger, board, [&window] { return window.counted(); }) {}

Keeper::~Keeper() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    thread.swap(thread_);
  }
  ended_.notify_all();
  if (thread.joinable()) thread.join();
}

void Keeper::start() {
  const std::lock_guard lock(mutex_);
  if (ending_ || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
}

void Keeper::run() {
  lower_own_priority();
  do {
    const Standing now = standing();
    if (is_worth_making(last_, now)) make(now);
  } while (wait_a_look());
}

bool Keeper::ending() {
  const std::lock_guard lock(mutex_);
  return ending_;
}

bool Keeper::wait_a_look() {
  std::unique_lock lock(mutex_);
  return !ended_.wait_for(lock, kMarketLook, [this] { return ending_; });
}

Standing Keeper::standing() const {
  return {window_.pods_seen(), ledger_.releases(), clock_.now(), Duration{0}};
}

void Keeper::make(Standing now) {
  maker_.make(now.began, [this] { return !ending(); });
  now.took = clock_.now() - now.began;
  last_ = now;
  on_made_(now.took);
}

}  // namespace mgpu::extender
