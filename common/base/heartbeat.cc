#include "common/base/heartbeat.h"

#include "common/base/limits.h"

namespace mgpu {

Heartbeat::Heartbeat(Executor& executor) : executor_(executor), last_(executor.now()), timer_(0) {
  executor_.post(callbacks_.wrap([this] { beat(); }));
}

Heartbeat::~Heartbeat() {
  callbacks_.close();
  executor_.cancel(timer_);
}

bool Heartbeat::is_missed() const {
  return silence() > kHeartbeatMissed;
}

void Heartbeat::beat() {
  last_ = executor_.now();
  timer_ = executor_.after(kHeartbeatInterval, callbacks_.wrap([this] { beat(); }));
}

}  // namespace mgpu
