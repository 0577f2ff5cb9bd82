#include "extender/certificates/facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace mgpu::extender {
namespace {

using std::chrono::sys_seconds;

std::string text_of(const ASN1_STRING* value) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
          static_cast<std::size_t>(ASN1_STRING_length(value))};
}

// The epoch for a time that cannot be read.
sys_seconds seconds_of(const ASN1_TIME* time) {
  const std::unique_ptr<ASN1_TIME, OpenSslFree<ASN1_TIME_free>> epoch(ASN1_TIME_set(nullptr, 0));
  int days = 0;
  int seconds = 0;
  if (!epoch || ASN1_TIME_diff(&days, &seconds, epoch.get(), time) != 1) return {};
  return sys_seconds(std::chrono::days(days) + std::chrono::seconds(seconds));
}

std::string common_name_of(X509* certificate) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "" : text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

ServerNames server_names_of(X509* certificate) {
  ServerNames names;
  const std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = all ? sk_GENERAL_NAME_num(all.get()) : 0;
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_IPADD) {
      names.insert(ip_of_bytes(text_of(name->d.iPAddress)));
    } else if (name->type == GEN_DNS && is_dns_name(text_of(name->d.dNSName))) {
      names.insert(text_of(name->d.dNSName));
    }
  }
  names.erase("");
  return names;
}

std::string life_problem(const CertificateFacts& facts, sys_seconds now) {
  if (now > facts.not_after) return "has expired on " + date_text(facts.not_after);
  if (now < facts.not_before) return "is not valid before " + date_text(facts.not_before);
  return {};
}

// Why the certificate has no chain to one of `trusted`; empty: it has one.
std::string chain_problem(X509* certificate, const std::vector<X509Owner>& trusted,
                          CertificateUse use, sys_seconds now) {
  const std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>> check(
      X509_STORE_CTX_new());
  for (const X509Owner& one : trusted) X509_STORE_add_cert(store.get(), one.get());
  if (X509_STORE_CTX_init(check.get(), store.get(), certificate, nullptr) != 1) {
    return "cannot be checked";
  }
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(check.get());
  X509_VERIFY_PARAM_set_time(rules, now.time_since_epoch().count());
  X509_VERIFY_PARAM_set_purpose(
      rules, use == CertificateUse::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  const bool verified = X509_verify_cert(check.get()) == 1;
  const int why = X509_STORE_CTX_get_error(check.get());
  ERR_clear_error();
  if (verified) return {};
  return fmt::format("is not accepted: {}", X509_verify_cert_error_string(why));
}

}  // namespace

std::string date_text(sys_seconds time) {
  return fmt::format("{:%Y-%m-%d}", time);
}

CertificateFacts facts_of(X509* certificate) {
  return {common_name_of(certificate), server_names_of(certificate),
          seconds_of(X509_get0_notBefore(certificate)),
          seconds_of(X509_get0_notAfter(certificate))};
}

std::optional<CertificateFacts> read_facts(const std::string& pem) {
  const auto certificates = read_certificates(pem);
  if (certificates.empty()) return std::nullopt;
  return facts_of(certificates.front().get());
}

X509Owner signer_of(const PemPair& authority) {
  const KeyOwner key = read_private_key(authority.key);
  if (!key) return nullptr;
  for (X509Owner& one : read_certificates(authority.certificate)) {
    const bool belongs = X509_check_private_key(one.get(), key.get()) == 1;
    ERR_clear_error();
    if (belongs) return std::move(one);
  }
  return nullptr;
}

std::string authority_problem(const std::string& certificates, sys_seconds now) {
  if (certificates.empty()) return "is missing";
  std::string problem = "is not a PEM certificate";
  for (const X509Owner& one : read_certificates(certificates)) {
    problem = X509_check_ca(one.get()) == 0 ? "is not the certificate of an authority"
                                            : life_problem(facts_of(one.get()), now);
    if (problem.empty()) return {};
  }
  return problem;
}

std::string authority_key_problem(const PemPair& authority) {
  if (authority.key.empty()) return "is missing";
  if (!read_private_key(authority.key)) return "is not a PEM key without a password";
  if (!signer_of(authority)) return "does not belong to the certificate in ca.crt";
  return {};
}

std::string certificate_problem(const PemPair& pair, const std::string& authorities,
                                CertificateUse use, sys_seconds now) {
  if (pair.certificate.empty()) return "is missing";
  const auto certificates = read_certificates(pair.certificate);
  if (certificates.empty()) return "is not a PEM certificate";
  X509* const certificate = certificates.front().get();
  const KeyOwner key = read_private_key(pair.key);
  const bool belongs = key && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (!belongs) return "has no key that belongs to it";
  std::string life = life_problem(facts_of(certificate), now);
  if (!life.empty()) return life;
  return chain_problem(certificate, read_certificates(authorities), use, now);
}

}  // namespace mgpu::extender
