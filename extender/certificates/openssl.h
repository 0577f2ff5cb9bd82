// OpenSSL's objects with their owners, and PEM text. Thread-safe.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

namespace mgpu::extender {

template <auto kFree>
struct OpenSslFree {
  void operator()(auto* object) const { kFree(object); }
};
using X509Owner = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using KeyOwner = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;

// The certificates of a PEM text; at most kAuthoritiesMax are read. Empty: there is none, or one of
// them cannot be read.
std::vector<X509Owner> read_certificates(const std::string& pem);
// Null: the text is not a PEM key without a password.
KeyOwner read_private_key(const std::string& pem);

// REQUIRES: not null. What cannot be written ends the process: it is out of memory.
std::string certificate_pem(X509* certificate);
std::string private_key_pem(EVP_PKEY* key);

}  // namespace mgpu::extender
