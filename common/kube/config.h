// Where the API server is and who we are: a kubeconfig file or the pod's own service account.
#pragma once

#include <string>

#include "common/base/result.h"

namespace mgpu::kube {

// Certificates and keys are either PEM text or a file's path, never both.
struct PemSource {
  std::string pem;
  std::string file;
  bool empty() const { return pem.empty() && file.empty(); }
};

struct Config {
  std::string server;  // "https://10.0.0.1:6443", no trailing slash
  PemSource ca;        // empty: the system's roots
  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  // wins over token; read again at least every minute and on 401
  std::string username;    // basic authentication; empty = none
  std::string password;
  std::string tls_server_name;  // empty: the host of `server`
  std::string proxy_url;        // empty = none
  // Only ever set by the user's own word: insecure-skip-tls-verify, or a flag.
  bool insecure_skip_tls_verify = false;
};

// The user's kubeconfig. `context` empty = its current-context. Relative paths in the file are
// relative to the file. Errors: unreadable, not YAML, unknown context, cluster or user, both or
// neither of a pair, a base64 that does not decode, exec and auth-provider plugins (not supported).
Result<Config> load_kubeconfig(const std::string& path, const std::string& context);

// From `directory` (usually /var/run/secrets/kubernetes.io/serviceaccount: token, ca.crt) and the
// environment's KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
Result<Config> load_in_cluster(const std::string& directory);

// `kubeconfig` where it is not empty, else $KUBECONFIG, else in-cluster where the environment says
// that we run in a pod, else ~/.kube/config. The error names all places looked at.
Result<Config> load_config(const std::string& kubeconfig, const std::string& context);

}  // namespace mgpu::kube
