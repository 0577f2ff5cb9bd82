// The messages of client-go credential plugins (client.authentication.k8s.io/v1 and v1beta1): what
// a plugin gets in KUBERNETES_EXEC_INFO, and what it prints. Pure; any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/config/config.h"

namespace mgpu::kube {

// A token, a client certificate with its key, or both.
struct ExecCredential {
  std::string token;
  PemSource certificate;
  PemSource key;
  std::optional<std::chrono::sys_seconds> expires;
};

// The JSON text of KUBERNETES_EXEC_INFO. `ca_pem` is the text of config.ca. REQUIRES: config.exec.
std::string exec_info(const Config& config, std::string_view ca_pem, bool interactive);

// Errors, as the end of a sentence, which never contain what the plugin printed: not an
// ExecCredential of this API version, no credential, a certificate without a key, an invalid time.
Result<ExecCredential> read_exec_credential(std::string_view json, std::string_view api_version);

}  // namespace mgpu::kube
