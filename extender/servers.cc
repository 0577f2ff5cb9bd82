#include "extender/servers.h"

#include <chrono>
#include <utility>

#include "common/base/log.h"

namespace mgpu::extender {
namespace {

constexpr const char* kMetricPrefix = "mgpu_extender";

std::chrono::sys_seconds wall_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace

Servers::Servers(const Dependencies& dependencies)
    : dependencies_(dependencies), certificates_(new_certificates()) {}

Result<void> Servers::start() {
  auto service =
      ServiceServer::start(dependencies_.service, service_router_, dependencies_.transport,
                           server_events(dependencies_.metrics, kMetricPrefix, "metrics"));
  if (!service) return service.error();
  service_server_ = std::move(*service);
  auto server = http::Server::start(
      dependencies_.verbs,
      [this](http::Request request, http::Respond respond) {
        verb_router_.route(std::move(request), std::move(respond));
      },
      server_events(dependencies_.metrics, kMetricPrefix, "verbs"));
  if (!server) return server.error();
  verb_server_ = std::move(*server);
  verbs_port_ = verb_server_->port();
  if (!certificates_) return {};
  if (dependencies_.service.http.tls.from_texts) {
    // Probes, which do not verify it, are answered before the Secret is read.
    const auto temporary = new_bundle(dependencies_.certificates->names, wall_clock()).server;
    const auto used = service_server_->use_tls({temporary.certificate, temporary.key, ""});
    if (!used) return used.error();
  }
  certificates_->start();
  return {};
}

std::unique_ptr<SecretCertificates> Servers::new_certificates() {
  if (!dependencies_.certificates) return nullptr;
  CertificateEvents events{
      .on_certificates = [this](const CertificateBundle& bundle) { return use(bundle); },
      .on_renewed =
          [this](const std::string& certificate, const std::string& reason) {
            log_info("made a certificate", {{"secret", certificates_->name()},
                                            {"certificate", certificate},
                                            {"reason", reason}});
          },
      .on_expiries = [this](const auto& ends) { dependencies_.probe.certificates_end(ends); },
      .on_problem =
          [](const std::string& problem) {
            log_warn("certificates need attention", {{"problem", problem}});
          }};
  return std::make_unique<SecretCertificates>(dependencies_.client, *dependencies_.certificates,
                                              std::move(events), wall_clock);
}

Result<void> Servers::use(const CertificateBundle& bundle) {
  auto used = verb_server_->use_tls(
      {bundle.server.certificate, bundle.server.key, bundle.authority.certificate});
  if (used && dependencies_.service.http.tls.from_texts) {
    used = service_server_->use_tls({bundle.server.certificate, bundle.server.key, ""});
  }
  if (used) {
    log_info("using the certificates of the secret", {{"secret", certificates_->name()}});
  }
  return used;
}

void Servers::drain() {
  if (verb_server_) verb_server_->drain();
}

void Servers::end_verbs() {
  if (certificates_) certificates_->stop();
  verb_server_.reset();
}

}  // namespace mgpu::extender
