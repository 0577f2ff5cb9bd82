// mgpu-device-plugin: the agent over libcurl, until SIGTERM or SIGINT.
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "common/asio_executor.h"
#include "common/kube/config.h"
#include "common/kube/curl_transport.h"
#include "common/log.h"
#include "common/options.h"
#include "common/signals.h"
#include "plugin/agent.h"
#include "plugin/flags.h"

namespace {

using mgpu::Flags;
using mgpu::Result;

Result<mgpu::kube::Config> api_server(const Flags& flags) {
  auto config = mgpu::kube::load_config(flags.kubeconfig, flags.context);
  if (config && flags.insecure_skip_tls_verify) config->insecure_skip_tls_verify = true;
  return config;
}

// Why the agent cannot go on; it ends the wait for a signal.
class Fatal {
 public:
  void tell(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    problem_ = problem;
    kill(getpid(), SIGTERM);
  }
  Result<void> result() const {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) return {};
    return mgpu::error(problem_);
  }

 private:
  mutable std::mutex mutex_;
  std::string problem_;  // protected by mutex_
};

Result<void> serve(const Flags& flags, mgpu::kube::Transport& transport) {
  auto settings = mgpu::settings_of(flags);
  if (!settings) return settings.error();
  auto cards = mgpu::card_source_of(flags);
  if (!cards) return cards.error();
  Fatal fatal;
  auto agent = mgpu::Agent::start(std::move(*settings), std::move(*cards), transport,
                                  [&fatal](const std::string& problem) { fatal.tell(problem); });
  if (!agent) return agent.error();
  mgpu::log_info("listening",
                 {{"address", flags.listen_address}, {"port", std::to_string((*agent)->port())}});
  mgpu::wait_for_the_end();
  agent->reset();
  return fatal.result();
}

Result<void> run(const Flags& flags) {
  auto config = api_server(flags);
  if (!config) return config.error();
  mgpu::log_flags(flags);
  mgpu::log_info("following", {{"api_server", config->server}});
  mgpu::AsioExecutor executor;
  auto transport = mgpu::kube::CurlTransport::create(std::move(*config), executor);
  if (!transport) return transport.error();
  auto served = serve(flags, **transport);
  executor.stop();
  return served;
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
  mgpu::hold_signals();
  Flags flags;
  mgpu::Options options("mgpu-device-plugin", "Gives containers their shares of this node's GPUs.",
                        "MGPU_DEVICE_PLUGIN");
  mgpu::add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (!mgpu::set_log_level(flags.log_level) || !mgpu::set_log_format(flags.log_format)) return 2;
  if (auto ran = run(flags); !ran) {
    std::fprintf(stderr, "mgpu-device-plugin: %s\n", ran.error().message.c_str());
    return 1;
  }
  mgpu::log_info("ended");
  return 0;
}
