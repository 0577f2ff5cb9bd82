#include "extender/certificates/issue.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <memory>

#include "common/base/check.h"
#include "extender/certificates/facts.h"
#include "extender/certificates/limits.h"
#include "extender/certificates/openssl.h"

namespace mgpu::extender {
namespace {

using std::chrono::sys_seconds;

// OpenSSL's functions here fail where there is no memory or no random numbers.
void must(bool succeeded) {
  MGPU_CHECK(succeeded, "OpenSSL can make a certificate");
}

KeyOwner new_key() {
  KeyOwner key(EVP_EC_gen("P-256"));
  must(key != nullptr);
  return key;
}

// Positive, and 16 bytes long: two are never equal.
std::string set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  must(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  const std::unique_ptr<BIGNUM, OpenSslFree<BN_free>> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  must(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr);
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", bytes[0], bytes[1], bytes[2], bytes[3]);
}

void set_common_name(X509_NAME* name, const std::string& text) {
  must(X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                  reinterpret_cast<const unsigned char*>(text.data()),
                                  static_cast<int>(text.size()), -1, 0) == 1);
}

void set_life(X509* certificate, sys_seconds begin, sys_seconds end) {
  must(ASN1_TIME_set(X509_getm_notBefore(certificate), begin.time_since_epoch().count()) &&
       ASN1_TIME_set(X509_getm_notAfter(certificate), end.time_since_epoch().count()));
}

// `value` as in the configuration of the program openssl.
void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  must(extension && X509_add_ext(certificate, extension.get(), -1) == 1);
}

X509Owner new_certificate(EVP_PKEY* key) {
  X509Owner certificate(X509_new());
  must(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
       X509_set_pubkey(certificate.get(), key) == 1);
  return certificate;
}

PemPair signed_pair(X509* certificate, EVP_PKEY* key, EVP_PKEY* signing_key) {
  must(X509_sign(certificate, signing_key, EVP_sha256()) > 0);
  return {certificate_pem(certificate), private_key_pem(key)};
}

// `usage` is that of extendedKeyUsage, and `names` that of subjectAltName; empty: none.
Result<PemPair> issue(const PemPair& authority, const std::string& common_name,
                      const std::string& usage, const std::string& names, sys_seconds now,
                      std::chrono::days life) {
  const X509Owner signer = signer_of(authority);
  const KeyOwner signing_key = read_private_key(authority.key);
  if (!signer || !signing_key) return error("the authority has no key that belongs to it");
  const KeyOwner key = new_key();
  const X509Owner certificate = new_certificate(key.get());
  set_serial(certificate.get());
  set_common_name(X509_get_subject_name(certificate.get()), common_name);
  must(X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer.get())) == 1);
  set_life(certificate.get(), now - kClockTolerance,
           std::min<sys_seconds>(now + life, facts_of(signer.get()).not_after));
  const auto add = [&](int kind, const std::string& value) {
    add_extension(certificate.get(), signer.get(), kind, value);
  };
  add(NID_basic_constraints, "critical,CA:FALSE");
  add(NID_key_usage, "critical,digitalSignature");
  add(NID_ext_key_usage, usage);
  add(NID_subject_key_identifier, "hash");
  // An authority that was made elsewhere may have no identifier.
  if (X509_get0_subject_key_id(signer.get()) != nullptr) {
    add(NID_authority_key_identifier, "keyid:always");
  }
  if (!names.empty()) add(NID_subject_alt_name, names);
  return signed_pair(certificate.get(), key.get(), signing_key.get());
}

}  // namespace

PemPair make_authority(sys_seconds now) {
  const KeyOwner key = new_key();
  const X509Owner certificate = new_certificate(key.get());
  const std::string serial = set_serial(certificate.get());
  // Each authority has another name, so that two of them can be trusted at the same time.
  set_common_name(X509_get_subject_name(certificate.get()), "mgpu-extender-ca-" + serial);
  must(X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) == 1);
  set_life(certificate.get(), now - kClockTolerance, now + kAuthorityLife);
  const auto add = [&](int kind, const std::string& value) {
    add_extension(certificate.get(), certificate.get(), kind, value);
  };
  add(NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add(NID_key_usage, "critical,keyCertSign,cRLSign");
  add(NID_subject_key_identifier, "hash");
  return signed_pair(certificate.get(), key.get(), key.get());
}

// The names contain no comma and no colon but those of IPv6 addresses, which are the last part.
Result<PemPair> issue_server(const PemPair& authority, const ServerNames& names, sys_seconds now) {
  std::string value;
  for (const std::string& name : names) {
    if (!value.empty()) value += ',';
    value += (canonical_ip(name).empty() ? "DNS:" : "IP:") + name;
  }
  return issue(authority, "mgpu-extender", "serverAuth", value, now, kCertificateLife);
}

Result<PemPair> issue_client(const PemPair& authority, const std::string& common_name,
                             sys_seconds now) {
  return issue(authority, common_name, "clientAuth", "", now, kClientLife);
}

}  // namespace mgpu::extender
