#include "common/base/signals.h"

#include <csignal>

#include "common/base/log.h"

namespace mgpu {

namespace {

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void hold_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void wait_for_shutdown() {
  const sigset_t signals = ending_signals();
  int received = 0;
  sigwait(&signals, &received);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  log_info("draining", {{"signal", received == SIGTERM ? "SIGTERM" : "SIGINT"}});
}

}  // namespace mgpu
