// Reads and checks certificates at a given time. Pure; thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "extender/certificates/issue.h"
#include "extender/certificates/names.h"
#include "extender/certificates/openssl.h"

namespace mgpu::extender {

struct CertificateFacts {
  std::string common_name;
  ServerNames names;  // the DNS names and IP addresses of the SAN extension that are valid names
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;
};

// "2026-01-02", in UTC.
std::string date_text(std::chrono::sys_seconds time);

CertificateFacts facts_of(X509* certificate);
// Reads the first certificate in PEM text. Returns nullopt if there is none.
std::optional<CertificateFacts> read_facts(const std::string& pem);

// The certificate in `authority.certificate` that belongs to `authority.key`. Null: there is none.
X509Owner signer_of(const PemPair& authority);

// Each result is empty, or the end of a sentence about the problem: "has expired on 2026-01-02".
//
// Empty if at least one of `certificates` is an authority that is valid now.
std::string authority_problem(const std::string& certificates, std::chrono::sys_seconds now);
// Empty if the key can sign for one of the certificates.
std::string authority_key_problem(const PemPair& authority);

enum class CertificateUse { kServer, kClient };
// Empty if certificate and key belong together, and a chain to one of `authorities` verifies this
// use of the certificate now.
std::string certificate_problem(const PemPair& pair, const std::string& authorities,
                                CertificateUse use, std::chrono::sys_seconds now);

}  // namespace mgpu::extender
