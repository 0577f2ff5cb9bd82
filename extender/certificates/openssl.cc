#include "extender/certificates/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/base/check.h"
#include "extender/certificates/limits.h"

namespace mgpu::extender {
namespace {

using BioOwner = std::unique_ptr<BIO, OpenSslFree<BIO_free>>;

BioOwner reader_of(const std::string& text) {
  return BioOwner(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Otherwise OpenSSL prompts for the password on the terminal.
int refuse_password(char*, int, int, void*) {
  return -1;
}

std::string text_in(BIO* bio) {
  char* begin = nullptr;
  const long size = BIO_get_mem_data(bio, &begin);
  return {begin, static_cast<std::size_t>(size)};
}

}  // namespace

std::vector<X509Owner> read_certificates(const std::string& pem) {
  const BioOwner from = reader_of(pem);
  std::vector<X509Owner> all;
  while (all.size() < kAuthoritiesMax) {
    X509Owner one(PEM_read_bio_X509(from.get(), nullptr, refuse_password, nullptr));
    if (!one) break;
    all.push_back(std::move(one));
  }
  const unsigned long failure = ERR_peek_last_error();
  ERR_clear_error();
  // OpenSSL reports the end of the text as an error, too.
  const bool at_end = failure == 0 || ERR_GET_REASON(failure) == PEM_R_NO_START_LINE;
  if (!at_end) all.clear();
  return all;
}

KeyOwner read_private_key(const std::string& pem) {
  KeyOwner key(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, refuse_password, nullptr));
  ERR_clear_error();
  return key;
}

std::string certificate_pem(X509* certificate) {
  const BioOwner to(BIO_new(BIO_s_mem()));
  MGPU_CHECK(to && PEM_write_bio_X509(to.get(), certificate) == 1, "out of memory");
  return text_in(to.get());
}

std::string private_key_pem(EVP_PKEY* key) {
  const BioOwner to(BIO_new(BIO_s_mem()));
  MGPU_CHECK(
      to && PEM_write_bio_PrivateKey(to.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "out of memory");
  return text_in(to.get());
}

}  // namespace mgpu::extender
