#include "common/http/client_certificate.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>

#include "common/http/limits.h"

namespace mgpu::http {

namespace {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

// With its length, because a name may contain a zero byte. Empty if it is not text.
std::string text_of(const ASN1_STRING* name) {
  unsigned char* utf8 = nullptr;
  const int length = ASN1_STRING_to_UTF8(&utf8, name);
  if (length < 0) return {};
  std::string text(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(length));
  OPENSSL_free(utf8);
  return text;
}

void add_common_name(X509* certificate, std::vector<std::string>& names) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return;
  names.push_back(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
}

void add_dns_names(X509* certificate, std::vector<std::string>& names) {
  const std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = all ? sk_GENERAL_NAME_num(all.get()) : 0;
  for (int i = 0; i < count && names.size() < kCertificateNamesMax; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.push_back(text_of(name->d.dNSName));
  }
}

// The epoch, which has passed, for a time that cannot be read.
std::chrono::sys_seconds time_of(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return {};
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&fields)));
}

}  // namespace

std::optional<ClientCertificate> client_certificate_of(const SSL* connection) {
  const std::unique_ptr<X509, FreeWith<X509_free>> certificate(
      SSL_get1_peer_certificate(connection));
  if (!certificate) return std::nullopt;
  ClientCertificate read;
  add_common_name(certificate.get(), read.names);
  add_dns_names(certificate.get(), read.names);
  std::erase(read.names, "");
  read.expires = time_of(X509_get0_notAfter(certificate.get()));
  return read;
}

bool has_allowed_name(const ClientCertificate& certificate,
                      const std::vector<std::string>& allowed) {
  if (allowed.empty()) return true;
  return std::ranges::any_of(certificate.names, [&](const std::string& name) {
    return std::ranges::find(allowed, name) != allowed.end();
  });
}

}  // namespace mgpu::http
