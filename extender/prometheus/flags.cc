#include "extender/prometheus/flags.h"

#include <utility>

namespace mgpu::promql {

void add_prometheus_flags(Options& options, Access& access, const std::string& url_help) {
  options.add_text("prometheus-url", url_help, access.url);
  options.add_text("prometheus-ca",
                   "File with the PEM certificates that an https address in --prometheus-url is "
                   "verified with. If empty, those of the system are used.",
                   access.ca_file);
  options.add_text("prometheus-token-file",
                   "File with a bearer token for --prometheus-url. If empty, none is sent.",
                   access.token_file);
  options.add_text(
      "prometheus-tenant",
      "Tenant at --prometheus-url, sent in the headers X-Scope-OrgID (Mimir, Cortex) and "
      "THANOS-TENANT. If empty, none is sent.",
      access.tenant);
}

Result<std::optional<kube::Config>> prometheus_config(const Access& access) {
  if (access.url.empty()) {
    if (!access.ca_file.empty()) return error("--prometheus-ca requires --prometheus-url");
    if (!access.tenant.empty()) return error("--prometheus-tenant requires --prometheus-url");
    if (access.token_file.empty()) return std::optional<kube::Config>();
    return error("--prometheus-token-file requires --prometheus-url");
  }
  auto config = config_of(access);
  if (!config) return config.error();
  return std::optional(std::move(*config));
}

}  // namespace mgpu::promql
