#include "extender/certificates/secret_certificates.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/kube/request.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

constexpr const char* kOpaque = "Opaque";
constexpr const char* kAll = "all";

// The members of the data that differ.
kube::StringMap changed_members(const kube::StringMap& before, const kube::StringMap& after) {
  kube::StringMap changed;
  for (const auto& [key, value] : after) {
    const auto old = before.find(key);
    if (old == before.end() || old->second != value) changed.emplace(key, value);
  }
  return changed;
}

}  // namespace

SecretCertificates::SecretCertificates(kube::Client& client, CertificateOptions options,
                                       CertificateEvents events, Clock clock)
    : client_(client),
      options_(std::move(options)),
      events_(std::move(events)),
      clock_(std::move(clock)) {}

void SecretCertificates::read() {
  client_.get_secret(
      options_.secret, kSecretRequestTimeout,
      callbacks_.wrap([this](const kube::ApiResult<kube::Secret>& read) { on_read(read); }));
}

void SecretCertificates::on_read(const kube::ApiResult<kube::Secret>& read) {
  if (read) return on_secret(*read);
  if (read.error().kind != Kind::kNotFound) {
    report(read.error().message);
    return retry();
  }
  const CertificateBundle fresh = new_bundle(options_.names, clock_());
  write(kube::create_secret(options_.secret, data_of(fresh)), "create",
        {{kAll, "the secret did not exist"}});
}

void SecretCertificates::on_secret(const kube::Secret& secret) {
  if (secret.type != kOpaque) {
    report(
        fmt::format("secret {} has the type {}, and must have the type Opaque: it belongs to "
                    "another program, so name another secret with --tls-secret",
                    name(), in_quotes(secret.type)));
    return retry();
  }
  const CertificateBundle bundle = bundle_of(secret.data);
  const auto now = clock_();
  const Examination found = examine(bundle, options_.names, now);
  events_.on_expiries(expiries_of(bundle));
  if (found.usable && !use(bundle)) return retry();
  const auto change = [&](const CertificateBundle& to, std::vector<Renewal> renewals) {
    write(kube::change_secret(options_.secret, secret.resource_version,
                              changed_members(secret.data, data_of(to))),
          "change", std::move(renewals));
  };
  if (found.empty) {
    return change(new_bundle(options_.names, now), {{kAll, "the secret had no certificates"}});
  }
  if (found.renewals()) {
    const auto fresh = renewed(bundle, found, options_.names, now);
    if (fresh) {
      std::vector<Renewal> renewals;
      if (!found.renew_server.empty()) renewals.push_back({"server", found.renew_server});
      if (!found.renew_client.empty()) renewals.push_back({"client", found.renew_client});
      return change(*fresh, std::move(renewals));
    }
    report(fmt::format("secret {}: {}", name(), fresh.error().message));
    return retry();
  }
  writes_ = 0;
  if (!found.problem.empty()) report(fmt::format("secret {}: {}", name(), found.problem));
  if (!found.usable) return retry();
  if (found.problem.empty()) problem_.clear();
  backoff_.reset();
  read_later(kSecretReadInterval);
}

void SecretCertificates::write(kube::Request request, const std::string& verb,
                               std::vector<Renewal> renewals) {
  request.timeout = kSecretRequestTimeout;
  std::string advice;
  for (const auto& [certificate, reason] : renewals) {
    if (certificate != kAll) advice += fmt::format("; the {} certificate {}", certificate, reason);
  }
  if (request.method == kube::Method::kPost) {
    advice = fmt::format(
        "; create it without data, as \"kubectl create secret generic --namespace {} {}\" does",
        options_.secret.name_space, options_.secret.name);
  }
  client_.write(std::move(request), fmt::format("{} secret {}", verb, name()),
                callbacks_.wrap([this, advice, renewals = std::move(renewals)](
                                    const kube::ApiResult<void>& written) {
                  if (!written) {
                    if (written.error().kind != Kind::kConflict)
                      report(written.error().message + advice);
                    return retry();
                  }
                  for (const auto& [certificate, reason] : renewals)
                    events_.on_renewed(certificate, reason);
                  // A second write in a row means that the first one has changed nothing.
                  if (++writes_ > 1) return retry();
                  read();
                }));
}

bool SecretCertificates::use(const CertificateBundle& bundle) {
  if (used_ == bundle) return true;
  if (auto used = events_.on_certificates(bundle); !used) {
    report(fmt::format("secret {}: {}", name(), used.error().message));
    return false;
  }
  used_ = bundle;
  available_ = true;
  return true;
}

void SecretCertificates::report(const std::string& problem) {
  const Instant now = client_.executor().now();
  if (problem == problem_ && now - reported_at_ < kCertificateProblemInterval) return;
  problem_ = problem;
  reported_at_ = now;
  events_.on_problem(problem);
}

void SecretCertificates::read_later(Duration delay) {
  client_.executor().after(delay, callbacks_.wrap([this] { read(); }));
}

void SecretCertificates::retry() {
  read_later(backoff_.next());
}

}  // namespace mgpu::extender
