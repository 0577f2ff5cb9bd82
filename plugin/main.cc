// mgpu-device-plugin: the agent over libcurl, until SIGTERM or SIGINT.
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/program/program.h"
#include "plugin/agent/agent.h"
#include "plugin/agent/flags.h"

namespace {

using mgpu::Result;
using mgpu::plugin::Flags;

// Why the agent cannot go on; it ends the wait for a signal.
class Fatal {
 public:
  void tell(const std::string& problem) {
    const mgpu::MutexLock lock(mutex_);
    problem_ = problem;
    kill(getpid(), SIGTERM);
  }
  Result<void> result() const {
    const mgpu::MutexLock lock(mutex_);
    if (problem_.empty()) return {};
    return mgpu::error(problem_);
  }

 private:
  mutable mgpu::Mutex mutex_;
  std::string problem_ MGPU_GUARDED_BY(mutex_);
};

Result<void> serve(const Flags& flags, mgpu::kube::Transport& transport) {
  auto settings = mgpu::plugin::settings_of(flags);
  if (!settings) return settings.error();
  auto cards = mgpu::plugin::card_source_of(flags);
  if (!cards) return cards.error();
  Fatal fatal;
  auto agent =
      mgpu::plugin::Agent::start(std::move(*settings), std::move(*cards), transport,
                                 [&fatal](const std::string& problem) { fatal.tell(problem); });
  if (!agent) return agent.error();
  mgpu::log_info("listening",
                 {{"address", flags.listen_address}, {"port", std::to_string((*agent)->port())}});
  mgpu::wait_for_shutdown();
  agent->reset();
  return fatal.result();
}

// One arena for the few threads that ever allocate at once, and what is free goes back: a quarter
// of the resident memory.
void keep_memory_small() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory_small();
  Flags flags;
  mgpu::Options options("mgpu-device-plugin", "Gives containers their shares of this node's GPUs.",
                        "MGPU_DEVICE_PLUGIN");
  mgpu::plugin::add_flags(options, flags);
  return mgpu::run_program(
      argc, argv, "mgpu-device-plugin", options, flags,
      {.log_flags = [&] { mgpu::plugin::log_flags(flags); },
       .serve = [&](mgpu::kube::Transport& transport) { return serve(flags, transport); }});
}
