#include "extender/certificates/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "extender/certificates/facts.h"
#include "extender/certificates/limits.h"

namespace mgpu::extender {
namespace {

using std::chrono::sys_seconds;

constexpr std::string_view kLacksName = "lacks the name";

template <class Bundle>
auto members_of(Bundle& bundle) {
  return std::array{std::pair{"ca.crt", &bundle.authority.certificate},
                    std::pair{"ca.key", &bundle.authority.key},
                    std::pair{"tls.crt", &bundle.server.certificate},
                    std::pair{"tls.key", &bundle.server.key},
                    std::pair{"client.crt", &bundle.client.certificate},
                    std::pair{"client.key", &bundle.client.key}};
}

// Why a valid certificate is renewed before its end; empty: it is not.
std::string due_reason(const CertificateFacts& facts, std::chrono::days life,
                       sys_seconds signer_end, sys_seconds now) {
  if (now < facts.not_after - std::chrono::seconds(life + kClockTolerance) / kRenewalPart)
    return {};
  const sys_seconds end = std::min<sys_seconds>(now + life, signer_end);
  if (end < facts.not_after + kRenewalGainMin) return {};
  return "expires on " + date_text(facts.not_after);
}

std::string server_reason(const CertificateBundle& bundle, const ServerNames& names,
                          sys_seconds signer_end, sys_seconds now) {
  std::string problem = certificate_problem(bundle.server, bundle.authority.certificate,
                                            CertificateUse::kServer, now);
  if (!problem.empty()) return problem;
  const auto facts = read_facts(bundle.server.certificate);
  for (const std::string& name : names) {
    if (!facts->names.contains(name)) return fmt::format("{} {}", kLacksName, name);
  }
  return due_reason(*facts, kCertificateLife, signer_end, now);
}

std::string client_reason(const CertificateBundle& bundle, sys_seconds signer_end,
                          sys_seconds now) {
  std::string problem = certificate_problem(bundle.client, bundle.authority.certificate,
                                            CertificateUse::kClient, now);
  if (!problem.empty()) return problem;
  const auto facts = read_facts(bundle.client.certificate);
  if (facts->common_name != kSchedulerName) {
    return fmt::format("{} {}", kLacksName, kSchedulerName);
  }
  return due_reason(*facts, kClientLife, signer_end, now);
}

constexpr const char* kReplaceAuthority =
    "restore it from a backup, or remove the data of the secret, so that a new authority is made, "
    "and give the new ca.crt, client.crt and client.key to each kube-scheduler and restart it";

// The certificate that signs; without the key, the first one.
sys_seconds authority_end(const PemPair& authority) {
  const X509Owner signer = signer_of(authority);
  if (signer) return facts_of(signer.get()).not_after;
  const auto first = read_facts(authority.certificate);
  return first ? first->not_after : sys_seconds{};
}

void examine_authority(const CertificateBundle& bundle, sys_seconds now, Examination& to) {
  const std::string certificate = authority_problem(bundle.authority.certificate, now);
  if (!certificate.empty()) {
    to.problem = fmt::format("ca.crt {}: {}", certificate, kReplaceAuthority);
    return;
  }
  const std::string key = authority_key_problem(bundle.authority);
  const sys_seconds end = authority_end(bundle.authority);
  if (!key.empty()) {
    to.problem =
        fmt::format("ca.key {}, so that no certificate can be renewed: {}", key, kReplaceAuthority);
  } else if (end < now + kAuthorityWarning) {
    to.problem = fmt::format(
        "the authority in ca.crt expires on {}: before, remove the data of the secret, so that a "
        "new authority is made, and give the new ca.crt, client.crt and client.key to each "
        "kube-scheduler and restart it",
        date_text(end));
  }
}

}  // namespace

bool CertificateBundle::operator==(const CertificateBundle& other) const {
  return data_of(*this) == data_of(other);
}

CertificateBundle bundle_of(const kube::StringMap& data) {
  CertificateBundle bundle;
  for (const auto& [key, value] : members_of(bundle)) {
    const auto found = data.find(key);
    if (found != data.end()) *value = found->second;
  }
  return bundle;
}

kube::StringMap data_of(const CertificateBundle& bundle) {
  kube::StringMap data;
  for (const auto& [key, value] : members_of(bundle)) data.emplace(key, *value);
  return data;
}

Examination examine(const CertificateBundle& bundle, const ServerNames& names, sys_seconds now) {
  Examination found;
  found.empty = std::ranges::all_of(members_of(bundle),
                                    [](const auto& member) { return member.second->empty(); });
  if (found.empty) return found;
  examine_authority(bundle, now, found);
  if (!authority_problem(bundle.authority.certificate, now).empty()) return found;
  found.usable =
      certificate_problem(bundle.server, bundle.authority.certificate, CertificateUse::kServer, now)
          .empty();
  if (!authority_key_problem(bundle.authority).empty()) return found;
  const sys_seconds end = authority_end(bundle.authority);
  found.renew_server = server_reason(bundle, names, end, now);
  found.renew_client = client_reason(bundle, end, now);
  return found;
}

CertificateBundle new_bundle(const ServerNames& names, sys_seconds now) {
  CertificateBundle bundle;
  bundle.authority = make_authority(now);
  auto server = issue_server(bundle.authority, names, now);
  auto client = issue_client(bundle.authority, kSchedulerName, now);
  MGPU_CHECK(server && client, "a new authority can sign");
  bundle.server = *std::move(server);
  bundle.client = *std::move(client);
  return bundle;
}

Result<CertificateBundle> renewed(const CertificateBundle& bundle, const Examination& examination,
                                  const ServerNames& names, sys_seconds now) {
  CertificateBundle fresh = bundle;
  if (!examination.renew_server.empty()) {
    ServerNames all = names;
    const auto old = read_facts(bundle.server.certificate);
    if (old && examination.renew_server.starts_with(kLacksName)) {
      all.insert(old->names.begin(), old->names.end());
    }
    auto server = issue_server(bundle.authority, all.size() > kServerNamesMax ? names : all, now);
    if (!server) return server.error();
    fresh.server = *std::move(server);
  }
  if (!examination.renew_client.empty()) {
    auto client = issue_client(bundle.authority, kSchedulerName, now);
    if (!client) return client.error();
    fresh.client = *std::move(client);
  }
  // Otherwise they would be renewed again and again.
  const Examination again = examine(fresh, names, now);
  if (!again.renew_server.empty()) {
    return error(fmt::format("a new server certificate {}: check the authority in ca.crt",
                             again.renew_server));
  }
  if (!again.renew_client.empty()) {
    return error(fmt::format("a new client certificate {}: check the authority in ca.crt",
                             again.renew_client));
  }
  return fresh;
}

std::map<std::string, sys_seconds> expiries_of(const CertificateBundle& bundle) {
  std::map<std::string, sys_seconds> ends;
  if (read_facts(bundle.authority.certificate)) ends["ca"] = authority_end(bundle.authority);
  if (const auto facts = read_facts(bundle.server.certificate)) ends["server"] = facts->not_after;
  if (const auto facts = read_facts(bundle.client.certificate)) ends["client"] = facts->not_after;
  return ends;
}

}  // namespace mgpu::extender
