// mgpu-extender: the extender over libcurl, until SIGTERM or SIGINT.
#include <cstdio>
#include <string>
#include <utility>

#include "common/asio_executor.h"
#include "common/kube/config.h"
#include "common/kube/curl_transport.h"
#include "common/log.h"
#include "common/options.h"
#include "common/signals.h"
#include "extender/extender.h"
#include "extender/flags.h"

namespace {

using mgpu::Flags;
using mgpu::Result;

Result<mgpu::kube::Config> api_server(const Flags& flags) {
  auto config = mgpu::kube::load_config(flags.kubeconfig, flags.context);
  if (config && flags.insecure_skip_tls_verify) config->insecure_skip_tls_verify = true;
  return config;
}

Result<void> serve(mgpu::ExtenderSettings settings, mgpu::kube::Transport& transport) {
  const std::string address = settings.http.address;
  auto extender = mgpu::Extender::start(std::move(settings), transport);
  if (!extender) return extender.error();
  mgpu::log_info("listening; ready once nodes, pods and budgets have been listed",
                 {{"address", address}, {"port", std::to_string((*extender)->port())}});
  mgpu::wait_for_the_end();
  (*extender)->drain();
  return {};
}

Result<void> run(const Flags& flags) {
  auto settings = mgpu::settings_of(flags);
  if (!settings) return settings.error();
  auto config = api_server(flags);
  if (!config) return config.error();
  mgpu::log_flags(flags);
  mgpu::log_info("following", {{"api_server", config->server}});
  mgpu::AsioExecutor executor;
  auto transport = mgpu::kube::CurlTransport::create(std::move(*config), executor);
  if (!transport) return transport.error();
  auto served = serve(std::move(*settings), **transport);
  executor.stop();
  return served;
}

}  // namespace

int main(int argc, char** argv) {
  mgpu::hold_signals();
  Flags flags;
  mgpu::Options options("mgpu-extender", "Places pods that share GPUs, for kube-scheduler.",
                        "MGPU_EXTENDER");
  mgpu::add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (!mgpu::set_log_level(flags.log_level) || !mgpu::set_log_format(flags.log_format)) return 2;
  if (auto ran = run(flags); !ran) {
    std::fprintf(stderr, "mgpu-extender: %s\n", ran.error().message.c_str());
    return 1;
  }
  mgpu::log_info("ended");
  return 0;
}
