#include "extender/prometheus_flags.h"

#include <utility>

namespace mgpu::extender {

void add_prometheus_flags(Options& options, promql::Access& access) {
  options.add_text("prometheus-url",
                   "address of a Prometheus that scrapes the extenders and device plugins, such as "
                   "http://prometheus.monitoring:9090; the web page shows the last 24 hours and "
                   "the use of pods from it. If empty, the page shows the time since this process "
                   "started",
                   access.url);
  options.add_text("prometheus-ca",
                   "file with the PEM certificates that an https address in --prometheus-url is "
                   "verified with; if empty, those of the system",
                   access.ca_file);
  options.add_text("prometheus-token-file",
                   "file with a bearer token for --prometheus-url; if empty, none is sent",
                   access.token_file);
}

Result<std::optional<kube::Config>> prometheus_config(const promql::Access& access) {
  if (access.url.empty()) {
    if (!access.ca_file.empty()) return error("--prometheus-ca requires --prometheus-url");
    if (access.token_file.empty()) return std::optional<kube::Config>();
    return error("--prometheus-token-file requires --prometheus-url");
  }
  auto config = promql::config_of(access);
  if (!config) return config.error();
  return std::optional(std::move(*config));
}

}  // namespace mgpu::extender
