// check_credentials of config.h.
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/config/config.h"

namespace mgpu::kube {
namespace {

template <auto Free>
struct Freed {
  void operator()(auto* object) const { Free(object); }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

Bio memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Otherwise OpenSSL prompts for the password on the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

std::string described(const PemSource& source) {
  return source.file.empty() ? "given as text" : "in file " + in_quotes(source.file);
}

Result<std::string> text_of(const PemSource& source) {
  if (source.file.empty()) return source.pem;
  return read_file(source.file, kCredentialFileBytesMax);
}

Result<Certificate> read_certificate(const PemSource& source, std::string_view what) {
  const auto text = text_of(source);
  if (!text) return error(fmt::format("{}: {}", what, text.error().message));
  Certificate certificate(PEM_read_bio_X509(memory(*text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (certificate) return certificate;
  return error(fmt::format("{} {} must be a PEM certificate, and is not", what, described(source)));
}

Result<Key> read_key(const PemSource& source) {
  const auto text = text_of(source);
  if (!text) return error("client key: " + text.error().message);
  Key key(PEM_read_bio_PrivateKey(memory(*text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key) return key;
  return error(fmt::format("client key {} must be a PEM key without a password, and is not",
                           described(source)));
}

}  // namespace

Result<void> check_credentials(const Config& config) {
  if (!config.ca.empty()) {
    const auto ca = read_certificate(config.ca, "certificate authority");
    if (!ca) return ca.error();
  }
  if (config.client_certificate.empty() != config.client_key.empty()) {
    return error("a client certificate and a client key must be given together");
  }
  if (config.client_certificate.empty()) return {};
  const auto certificate = read_certificate(config.client_certificate, "client certificate");
  if (!certificate) return certificate.error();
  const auto key = read_key(config.client_key);
  if (!key) return key.error();
  const bool pair = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  if (pair) return {};
  return error(fmt::format("client key {} must belong to the client certificate {}, and does not",
                           described(config.client_key), described(config.client_certificate)));
}

}  // namespace mgpu::kube
