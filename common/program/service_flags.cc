#include "common/program/service_flags.h"

#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/http/address.h"
#include "common/program/limits.h"

namespace mgpu {
namespace {

Result<std::optional<http::Endpoint>> local_endpoint(const std::string& value) {
  if (value.empty()) return std::optional<http::Endpoint>();
  auto endpoint = http::parse_endpoint(value);
  if (!endpoint) return error("--local-metrics-bind-address: " + endpoint.error().message);
  // This listener asks for no token, so it must not be reachable from other machines.
  if (http::is_loopback(endpoint->address)) return std::optional(std::move(*endpoint));
  return error("--local-metrics-bind-address: " + in_quotes(value) +
               " is not a loopback address, such as 127.0.0.1:9802");
}

}  // namespace

void add_service_flags(Options& options, ServiceFlags& flags, const std::string& insecure_help) {
  options.add_text(
      "metrics-bind-address",
      "IP address and port to listen on for probes, metrics and inspection. Port 0 selects a free "
      "port. On an address that is not loopback, clients other than probes need a bearer token.",
      flags.metrics_bind_address);
  options.add_text("local-metrics-bind-address",
                   "Loopback address and port that serves the same without TLS and tokens, for "
                   "kubectl port-forward to a pod whose --metrics-bind-address is not loopback. If "
                   "empty, there is none.",
                   flags.local_metrics_bind_address);
  options.add_text(
      "metrics-tls-cert-file",
      "File with the PEM certificate chain of that listener. If empty, it serves plain HTTP.",
      flags.metrics_tls_cert_file);
  options.add_text("metrics-tls-key-file", "File with the PEM private key of that certificate.",
                   flags.metrics_tls_key_file);
  options.add_text("allowed-hosts",
                   "Comma-separated names that the Host header of a request may have on loopback "
                   "addresses, besides localhost and loopback addresses.",
                   flags.allowed_hosts);
  options.add_flag("insecure-listen", insecure_help, flags.insecure_listen);
}

Result<std::vector<std::string>> names_of_flag(const std::string& flag, const std::string& value) {
  if (value.empty()) return std::vector<std::string>();
  auto names = parse_names(value);
  if (!names) return error(flag + ": " + names.error().message);
  return names;
}

Result<ServiceOptions> service_options_of(const ServiceFlags& flags) {
  auto endpoint = http::parse_endpoint(flags.metrics_bind_address);
  if (!endpoint) return error("--metrics-bind-address: " + endpoint.error().message);
  auto local = local_endpoint(flags.local_metrics_bind_address);
  if (!local) return local.error();
  if (flags.metrics_tls_cert_file.empty() != flags.metrics_tls_key_file.empty()) {
    return error("--metrics-tls-cert-file and --metrics-tls-key-file must be set together");
  }
  auto hosts = names_of_flag("--allowed-hosts", flags.allowed_hosts);
  if (!hosts) return hosts.error();
  ServiceOptions options;
  options.http.address = std::move(endpoint->address);
  options.http.port = endpoint->port;
  options.http.threads = 1;
  options.http.host_names = std::move(*hosts);
  options.http.tls = {.certificate_file = flags.metrics_tls_cert_file,
                      .key_file = flags.metrics_tls_key_file};
  options.http.body_bytes_max = kServiceBodyBytesMax;
  options.http.connections_max = kServiceConnectionsMax;
  options.http.connections_per_address_max = kServiceConnectionsPerAddressMax;
  options.insecure = flags.insecure_listen;
  options.local = std::move(*local);
  return options;
}

}  // namespace mgpu
