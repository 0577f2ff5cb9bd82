// The certificates in a Secret, which every replica of the extender reads, creates where there are
// none, and renews.
//
//   Secret absent or without the members --POST, PATCH--> read again
//   usable --> on_certificates, once per change; read again after kSecretReadInterval
//   a certificate must be renewed --PATCH with the resourceVersion that was read--> read again
//   cannot be used, no rights, no answer --> on_problem; the last certificates stay in use
//
// A write that is answered 409 has lost to another replica: the Secret is read again. A broken
// authority is never replaced, because kube-scheduler trusts it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/callback_guard.h"
#include "common/base/executor.h"
#include "common/kube/client.h"
#include "extender/certificates/bundle.h"
#include "extender/certificates/limits.h"

namespace mgpu::extender {

struct CertificateOptions {
  kube::ObjectRef secret;
  ServerNames names;  // of the server certificate
};

struct CertificateEvents {
  // Certificates to use from now on.
  std::function<Result<void>(const CertificateBundle& bundle)> on_certificates;
  // `certificate` is "server" or "client"; "all" if the authority is new, too.
  std::function<void(const std::string& certificate, const std::string& reason)> on_renewed;
  // When each certificate in the Secret ends.
  std::function<void(const std::map<std::string, std::chrono::sys_seconds>& ends)> on_expiries;
  // One sentence, when it is another one than before, and each kCertificateProblemInterval.
  std::function<void(const std::string& sentence)> on_problem;
};

// Runs on the client's executor, as do the events.
class SecretCertificates {
 public:
  using Clock = std::function<std::chrono::sys_seconds()>;  // the wall clock

  // `client` outlives this.
  SecretCertificates(kube::Client& client, CertificateOptions options, CertificateEvents events,
                     Clock clock);
  ~SecretCertificates() { stop(); }

  void start() { read(); }
  // No event is reported after it returns.
  void stop() { callbacks_.close(); }
  // Certificates are in use. Any thread.
  bool available() const { return available_; }
  // "kube-system/mgpu-extender-tls"
  std::string name() const { return to_string(options_.secret); }

 private:
  struct Renewal {
    std::string certificate;
    std::string reason;
  };

  void read();
  void on_read(const kube::ApiResult<kube::Secret>& read);
  void on_secret(const kube::Secret& secret);
  void write(kube::Request request, const std::string& verb, std::vector<Renewal> renewals);
  // False: they are refused, which has been reported.
  bool use(const CertificateBundle& bundle);
  void report(const std::string& problem);
  void read_later(Duration delay);
  // After a failure or a conflict.
  void retry();

  kube::Client& client_;
  const CertificateOptions options_;
  const CertificateEvents events_;
  const Clock clock_;
  std::atomic<bool> available_ = false;
  std::optional<CertificateBundle> used_;
  int writes_ = 0;  // since the last read that required none
  Backoff backoff_{kSecretRetryFirst, kSecretReadInterval};
  std::string problem_;  // reported last
  Instant reported_at_{};
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::extender
