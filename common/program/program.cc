#include "common/program/program.h"

#include <cstdio>
#include <utility>

#include "common/base/asio_executor.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/kube/config.h"
#include "common/kube/curl_transport.h"

namespace mgpu {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

Result<void> run(const ProgramFlags& flags, const ProgramSteps& steps) {
  auto config = kube::load_config(flags.kubeconfig, flags.context);
  if (!config) return config.error();
  if (flags.insecure_skip_tls_verify) config->insecure_skip_tls_verify = true;
  steps.log_flags();
  log_info("following", {{"api_server", config->server}});
  AsioExecutor executor;
  auto transport = kube::CurlTransport::create(std::move(*config), executor);
  if (!transport) return transport.error();
  auto served = steps.serve(**transport);
  executor.stop();
  return served;
}

}  // namespace

void add_api_server_flags(Options& options, ProgramFlags& flags) {
  options.add_text("kubeconfig",
                   "kubeconfig file; empty = $KUBECONFIG, else the pod's service account, else "
                   "~/.kube/config",
                   flags.kubeconfig);
  options.add_text("context", "context of the kubeconfig; empty = its current one", flags.context);
  options.add_flag("insecure-skip-tls-verify", "do not verify the API server's certificate",
                   flags.insecure_skip_tls_verify);
}

void add_log_flags(Options& options, ProgramFlags& flags) {
  options.add_choice("log-level", "least severity that is logged", flags.log_level,
                     {"debug", "info", "warn", "error", "off"});
  options.add_choice("log-format", "text, or json: one object a line", flags.log_format,
                     {"text", "json"});
}

int run_program(int argc, const char* const* argv, const std::string& name, Options& options,
                const ProgramFlags& flags, const ProgramSteps& steps) {
  hold_signals();
  const ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (!set_log_level(flags.log_level) || !set_log_format(flags.log_format)) return kUsage;
  if (auto ran = run(flags, steps); !ran) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), ran.error().message.c_str());
    return kFailed;
  }
  log_info("ended");
  return 0;
}

}  // namespace mgpu
