// Makes keys (ECDSA P-256) and certificates as PEM text. Apart from the keys and serial numbers,
// which are random, the result depends on the arguments only. Thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "extender/certificates/names.h"

namespace mgpu::extender {

struct PemPair {
  std::string certificate;
  std::string key;
};

// A certificate authority that signs itself, valid for kAuthorityLife.
PemPair make_authority(std::chrono::sys_seconds now);

// Certificates of a new key, valid for kCertificateLife or kClientLife, or as long as the authority
// is. In `authority` the certificate that belongs to the key signs. Errors: the authority cannot
// sign.
Result<PemPair> issue_server(const PemPair& authority, const ServerNames& names,
                             std::chrono::sys_seconds now);
Result<PemPair> issue_client(const PemPair& authority, const std::string& common_name,
                             std::chrono::sys_seconds now);

}  // namespace mgpu::extender
