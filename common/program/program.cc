#include "common/program/program.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <utility>

#include "common/base/asio_executor.h"
#include "common/base/log.h"
#include "common/kube/config/config.h"
#include "common/kube/curl/curl_transport.h"
#include "common/program/limits.h"

namespace mgpu {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Sent by request_shutdown(). Unlike SIGTERM, it stays blocked, so that a request during the
// shutdown changes nothing.
constexpr int kRequestSignal = SIGUSR1;

// Those of the user, of which a second one terminates the process.
sigset_t user_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

sigset_t shutdown_signals() {
  sigset_t signals = user_signals();
  sigaddset(&signals, kRequestSignal);
  return signals;
}

const char* name_of(int signal) {
  if (signal == kRequestSignal) return "none";
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

// For a process with the number 1 the kernel ignores signals without a handler.
void end_after(std::chrono::seconds time) {
  std::signal(SIGALRM, [](int) { ::_exit(kFailed); });
  ::alarm(static_cast<unsigned>(time.count()));
}

struct Connection {
  AsioExecutor executor;
  std::unique_ptr<kube::CurlTransport> transport;  // ends first
};

Result<void> run(const ProgramFlags& flags, const ProgramSteps& steps) {
  auto config = kube::load_config(flags.kubeconfig, flags.context);
  if (!config) return config.error();
  if (flags.insecure_skip_tls_verify) config->insecure_skip_tls_verify = true;
  steps.log_flags();
  log_info("using API server", {{"api_server", config->server}});
  std::deque<Connection> connections;
  const Connect connect = [&]() -> Result<kube::Transport*> {
    Connection& added = connections.emplace_back();
    auto transport = kube::CurlTransport::create(*config, added.executor);
    if (!transport) return transport.error();
    added.transport = std::move(*transport);
    return added.transport.get();
  };
  const auto transport = connect();
  if (!transport) return transport.error();
  auto served = steps.serve(**transport, connect);
  for (Connection& connection : connections) connection.executor.stop();
  return served;
}

}  // namespace

void add_api_server_flags(Options& options, ProgramFlags& flags) {
  options.add_text("kubeconfig",
                   "Kubeconfig file. If empty, $KUBECONFIG is used, else the service account of "
                   "the pod, else ~/.kube/config.",
                   flags.kubeconfig);
  options.add_text("context", "Context in the kubeconfig. If empty, the current context is used.",
                   flags.context);
  options.add_flag("insecure-skip-tls-verify", "Do not verify the API server's certificate.",
                   flags.insecure_skip_tls_verify);
}

void add_log_flags(Options& options, ProgramFlags& flags) {
  options.add_choice("log-level", "Lowest level that is logged.", flags.log_level,
                     {"debug", "info", "warn", "error", "off"});
  options.add_choice("log-format", "Format of the log; json has one object per line.",
                     flags.log_format, {"text", "json"});
}

int run_program(int argc, const char* const* argv, const std::string& name, Options& options,
                const ProgramFlags& flags, const ProgramSteps& steps) {
  return run_local_program(argc, argv, name, options, flags, [&] { return run(flags, steps); });
}

int run_local_program(int argc, const char* const* argv, const std::string& name, Options& options,
                      const ProgramFlags& flags, const std::function<Result<void>()>& serve) {
  std::signal(SIGPIPE, SIG_IGN);
  // Blocked before any thread is started, so that only wait_for_shutdown() receives them.
  const sigset_t signals = shutdown_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (!set_log_level(flags.log_level) || !set_log_format(flags.log_format)) return kUsage;
  write_log_in_background();
  const auto ran = serve();
  if (ran) log_info("stopped");
  end_log_in_background();
  if (!ran) std::fprintf(stderr, "%s: %s\n", name.c_str(), ran.error().message.c_str());
  return ran ? 0 : kFailed;
}

void request_shutdown() {
  // To the process: wait_for_shutdown() receives it.
  kill(getpid(), kRequestSignal);
}

void wait_for_shutdown() {
  const sigset_t signals = shutdown_signals();
  int received = 0;
  sigwait(&signals, &received);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  const sigset_t second = user_signals();
  pthread_sigmask(SIG_UNBLOCK, &second, nullptr);
  log_info("shutting down", {{"signal", name_of(received)}});
  end_after(kShutdownMax);
}

}  // namespace mgpu
