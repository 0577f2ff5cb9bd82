// The certificate of a client, after the TLS handshake has verified that a given authority signed
// it. Reading is for the thread of the connection; the rest is pure.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace mgpu::http {

struct ClientCertificate {
  std::vector<std::string> names;  // the common name, and the DNS names of the SAN extension
  std::chrono::sys_seconds expires;
};

// None if the client has presented none. A resumed session has that of the first handshake.
std::optional<ClientCertificate> client_certificate_of(const SSL* connection);

// True if one of its names is in `allowed`. If `allowed` is empty, every name is allowed.
bool has_allowed_name(const ClientCertificate& certificate,
                      const std::vector<std::string>& allowed);

}  // namespace mgpu::http
