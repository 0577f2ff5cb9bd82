#include "extender/certificate_flags.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

// Kubernetes requires lower case.
bool is_object_name(const std::string& name) {
  return is_dns_name(name) && lower_case(name) == name;
}

}  // namespace

void add_certificate_flags(Options& options, std::string& secret, std::string& names,
                           bool& metrics) {
  options.add_text("tls-secret",
                   "Namespace/name of a Secret with the certificates of the server and of "
                   "kube-scheduler, which the extender makes and renews. Clients need its client "
                   "certificate. It requires --tls-names, and excludes the flags for files.",
                   secret);
  options.add_text("tls-names",
                   "Comma-separated DNS names and IP addresses by which kube-scheduler reaches the "
                   "extender, for the certificate in --tls-secret.",
                   names);
  options.add_flag("metrics-tls-from-secret",
                   "Serve HTTPS at --metrics-bind-address, with the certificate of the server in "
                   "--tls-secret. Until the Secret is read, the certificate is one that no "
                   "client can verify.",
                   metrics);
}

Result<std::optional<CertificateOptions>> certificate_options(const std::string& secret,
                                                              const std::string& names) {
  if (secret.empty() && names.empty()) return std::optional<CertificateOptions>();
  if (secret.empty() || names.empty()) {
    return error("--tls-secret and --tls-names must be set together");
  }
  const std::size_t slash = secret.find('/');
  const std::string name_space = secret.substr(0, slash);
  const std::string name = slash == std::string::npos ? "" : secret.substr(slash + 1);
  // The name of a namespace has no dots, and that of a Secret may have some.
  const bool label = name_space.find('.') == std::string::npos;
  if (!label || !is_object_name(name_space) || !is_object_name(name)) {
    return error(
        fmt::format("--tls-secret: {} is not the namespace and name of a Secret, such as "
                    "\"kube-system/mgpu-extender-tls\"",
                    in_quotes(secret)));
  }
  auto server_names = parse_server_names(names);
  if (!server_names) return error("--tls-names: " + server_names.error().message);
  return std::optional(
      CertificateOptions{.secret = {name_space, name}, .names = std::move(*server_names)});
}

}  // namespace mgpu::extender
