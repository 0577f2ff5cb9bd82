// The certificates that the extender keeps in a Secret, and what has to be done with them. Pure,
// apart from the random keys of new certificates; thread-safe.
//
//   ca.crt, ca.key          the authority; ca.crt may have others besides, which are trusted too
//   tls.crt, tls.key        of the server
//   client.crt, client.key  of kube-scheduler
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "extender/certificates/issue.h"
#include "extender/certificates/names.h"

namespace mgpu::extender {

// The common name of the client certificate, which the server requires.
inline constexpr const char* kSchedulerName = "kube-scheduler";

struct CertificateBundle {
  PemPair authority;
  PemPair server;
  PemPair client;

  bool operator==(const CertificateBundle&) const;
};

// The `data` of the Secret. Members that are absent are empty; others are not read.
CertificateBundle bundle_of(const kube::StringMap& data);
kube::StringMap data_of(const CertificateBundle& bundle);

struct Examination {
  bool empty = false;   // it has none of the members
  bool usable = false;  // authority and server certificate are valid now
  // The authority cannot be used, cannot sign, or ends within kAuthorityWarning: what is wrong and
  // what to do. Empty: nothing.
  std::string problem;
  // Why a certificate has to be made, such as "has expired on 2026-01-02". Empty: it has not.
  std::string renew_server;
  std::string renew_client;

  bool renewals() const { return !renew_server.empty() || !renew_client.empty(); }
};

// A certificate that is due for renewal is only renewed if the authority can sign, and ends later
// than the certificate.
Examination examine(const CertificateBundle& bundle, const ServerNames& names,
                    std::chrono::sys_seconds now);

CertificateBundle new_bundle(const ServerNames& names, std::chrono::sys_seconds now);
// With new certificates if the examination requires them. A server certificate that lacks names
// keeps those that it has, so that two replicas with different names agree. Errors: the authority
// cannot sign, or its certificates are not accepted.
Result<CertificateBundle> renewed(const CertificateBundle& bundle, const Examination& examination,
                                  const ServerNames& names, std::chrono::sys_seconds now);

// When "ca", "server" and "client" end; without those that cannot be read.
std::map<std::string, std::chrono::sys_seconds> expiries_of(const CertificateBundle& bundle);

}  // namespace mgpu::extender
