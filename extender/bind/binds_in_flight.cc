#include "extender/bind/binds_in_flight.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {

BindsInFlight::BindsInFlight(Executor& executor, std::function<void()> on_delayed)
    : executor_(executor),
      on_delayed_(std::move(on_delayed)),
      allowed_(kBindsBeforeDelay),
      period_begin_(executor.now()) {}

void BindsInFlight::when_few(Task filter) {
  if (few()) return filter();
  executor_.post(
      callbacks_.wrap([this, filter = std::move(filter)]() mutable { delay(std::move(filter)); }));
}

// A bind may have ended since when_few().
void BindsInFlight::delay(Task filter) {
  if (few() || delayed_.size() >= kDelayedFiltersMax) return filter();
  const std::uint64_t id = next_id_++;
  delayed_.emplace(id, std::move(filter));
  MGPU_CHECK(delayed_.size() <= kDelayedFiltersMax, "the filters that wait are bounded");
  executor_.after(kFilterDelayMax, callbacks_.wrap([this, id] { run(id); }));
  if (on_delayed_) on_delayed_();
}

void BindsInFlight::end(bool bound) {
  MGPU_CHECK(count_ > 0, "a bind that has begun ends");
  --count_;
  note_end(bound);
  if (few() && !delayed_.empty()) executor_.post(callbacks_.wrap([this] { run_delayed(); }));
}

// Only pods that were bound count: binds that expire do so together, and say nothing about how many
// the API server serves.
void BindsInFlight::note_end(bool bound) {
  const Duration passed = executor_.now() - period_begin_;
  if (passed >= kBindsDelayed) {
    // After more than one period, none was bound in the last.
    const std::size_t last = passed < 2 * Duration(kBindsDelayed) ? bound_ : 0;
    allowed_ = std::clamp(last, kBindsBeforeDelay, kBindsBeforeDelayMax);
    MGPU_CHECK(allowed_ > 0, "some binds never delay a filter");
    period_begin_ = executor_.now();
    bound_ = 0;
  }
  if (bound) ++bound_;
}

// A filter may cause no bind, whose end would run the next one. The next one has a task of its own,
// because this one may end the object, and binds should not wait for all of them.
void BindsInFlight::run_delayed() {
  if (!few() || delayed_.empty()) return;
  if (delayed_.size() > 1) executor_.post(callbacks_.wrap([this] { run_delayed(); }));
  run(delayed_.begin()->first);
}

void BindsInFlight::run(std::uint64_t id) {
  const auto delayed = delayed_.extract(id);
  if (!delayed.empty()) delayed.mapped()();
}

}  // namespace mgpu::extender
