// The address of the API server and the client's credentials, from a kubeconfig file or from the
// pod's service account.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace mgpu::kube {

// A certificate or key: either PEM text or the path of a file, never both.
struct PemSource {
  std::string pem;
  std::string file;
  bool empty() const { return pem.empty() && file.empty(); }
};

// A program that prints the credentials of a user: a client-go credential plugin
// (client.authentication.k8s.io).
struct ExecConfig {
  enum class Interactive { kNever, kIfAvailable, kAlways };

  std::string api_version;  // "client.authentication.k8s.io/v1", or v1beta1
  std::string command;      // an absolute path, or a name to be found in $PATH
  std::vector<std::string> arguments{};
  std::vector<std::string> variables{};  // "NAME=value"
  Interactive interactive = Interactive::kIfAvailable;
  bool provide_cluster_info = false;
  std::string cluster_config{};  // JSON, from the extension of the cluster; empty: none
  std::string install_hint{};
};

struct Config {
  std::string server;  // "https://10.0.0.1:6443", no trailing slash
  PemSource ca;        // empty: the system's roots
  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  // used instead of token; read again at least every minute and on 401
  std::string username;    // of basic authentication; empty: none
  std::string password;
  std::string tls_server_name;  // empty: the host of `server`
  std::string proxy_url;        // empty: no proxy
  // Set only by the user: insecure-skip-tls-verify in the kubeconfig, or a flag.
  bool insecure_skip_tls_verify = false;
  std::optional<ExecConfig> exec{};    // instead of token, certificate and password
  std::string name_space{};            // of the context; empty: none
  std::vector<std::string> headers{};  // "Name: value", sent with every request
};

// Reads a kubeconfig file. An empty `context` means its current-context. Relative paths in the file
// are relative to its folder. Errors: a file that cannot be read or is not YAML; an unknown
// context, cluster or user; contradictory or incomplete credentials; invalid base64; auth-provider
// plugins and impersonation, which are not supported.
Result<Config> load_kubeconfig(const std::string& path, const std::string& context);

// The same for a list of files, separated by ":", of which the first one that has a context,
// cluster or user decides, as for kubectl. Files that do not exist are skipped. Errors: also no
// file, or more than kKubeconfigFilesMax.
Result<Config> load_kubeconfigs(const std::string& list, const std::string& context);

// Reads token and ca.crt in `directory` (usually /var/run/secrets/kubernetes.io/serviceaccount) and
// the environment variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
Result<Config> load_in_cluster(const std::string& directory);

// Checks the certificates and the key before they are used, so that a wrong file is named at the
// start and not at the first connection. Errors: a file that cannot be read; no certificate or key
// in the text; a key that needs a password, or does not belong to the certificate.
Result<void> check_credentials(const Config& config);

// Uses the first of these that is set: `kubeconfig`, the files of $KUBECONFIG, the service account
// where KUBERNETES_SERVICE_HOST is set, ~/.kube/config. The error names all of them.
Result<Config> load_config(const std::string& kubeconfig, const std::string& context);

}  // namespace mgpu::kube
