// mgpu-device-plugin: runs the agent over libcurl until SIGTERM or SIGINT.
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

// The error after which the agent does not serve. It ends the wait for a signal.
class FatalError {
 public:
  void set(const std::string& problem) {
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
  auto options = mgpu::plugin::options_of(flags);
  if (!options) return options.error();
  const std::string address = options->service.http.address;
  auto cards = mgpu::plugin::card_source_of(flags);
  if (!cards) return cards.error();
  FatalError fatal;
  auto agent =
      mgpu::plugin::Agent::start(std::move(*options), std::move(*cards), transport,
                                 [&fatal](const std::string& problem) { fatal.set(problem); });
  if (!agent) return agent.error();
  mgpu::log_info("listening", {{"address", address}, {"port", std::to_string((*agent)->port())}});
  mgpu::wait_for_shutdown();
  agent->reset();
  return fatal.result();
}

// One arena, since few threads allocate at once, and free memory is returned to the system: this
// reduces the resident memory by a quarter.
void limit_memory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}

}  // namespace

int main(int argc, char** argv) {
  limit_memory();
  Flags flags;
  mgpu::Options options("mgpu-device-plugin",
                        "Device plugin that shares this node's GPUs between containers.",
                        "MGPU_DEVICE_PLUGIN");
  mgpu::plugin::add_flags(options, flags);
  return mgpu::run_program(
      argc, argv, "mgpu-device-plugin", options, flags,
      {.log_flags = [&] { mgpu::plugin::log_flags(flags); },
       .serve = [&](mgpu::kube::Transport& transport,
                    const mgpu::Connect&) { return serve(flags, transport); }});
}
