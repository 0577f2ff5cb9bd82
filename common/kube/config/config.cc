#include "common/kube/config/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/text.h"

namespace mgpu::kube {
namespace {

constexpr const char* kServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_port(const std::string& text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

Result<Config> load_in_cluster(const std::string& directory) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty()) return error("in-cluster: KUBERNETES_SERVICE_HOST is not set");
  if (!is_port(port)) {
    return error("in-cluster: KUBERNETES_SERVICE_PORT must be a port, is " + in_quotes(port));
  }
  Config config;
  const bool ipv6 = host.find(':') != std::string::npos;
  config.server = fmt::format("https://{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
  config.ca.file = directory + "/ca.crt";
  config.token_file = directory + "/token";
  // Read here already, so that the program says at its start what is missing in the pod.
  for (const std::string& file : {config.ca.file, config.token_file}) {
    const auto text = read_file(file, kCredentialFileBytesMax);
    if (!text) return error("in-cluster: " + text.error().message);
    if (text->empty()) return error(fmt::format("in-cluster: file {} is empty", in_quotes(file)));
  }
  return config;
}

Result<Config> load_config(const std::string& kubeconfig, const std::string& context) {
  if (!kubeconfig.empty()) return load_kubeconfig(kubeconfig, context);
  const std::string named = environment("KUBECONFIG");
  if (named.find(':') != std::string::npos) return load_kubeconfigs(named, context);
  if (!named.empty()) return load_kubeconfig(named, context);
  if (!environment("KUBERNETES_SERVICE_HOST").empty()) return load_in_cluster(kServiceAccount);
  const std::string home = environment("HOME") + "/.kube/config";
  if (::access(home.c_str(), F_OK) == 0) return load_kubeconfig(home, context);
  return error(
      fmt::format("no API server is configured: no kubeconfig was given, KUBECONFIG and "
                  "KUBERNETES_SERVICE_HOST are not set, and there is no file {}",
                  in_quotes(home)));
}

}  // namespace mgpu::kube
