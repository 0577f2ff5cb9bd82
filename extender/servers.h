// The two HTTP servers of the extender: one has only the verbs, with which a client can bind pods;
// the other one has probes, metrics and inspection. Owns both, their routers, and the certificates
// in a Secret, which are read and renewed on the client's executor while the servers use them. For
// the thread that starts and ends the servers, except for the functions with another comment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/kube/client.h"
#include "common/kube/transport.h"
#include "common/program/service_server.h"
#include "extender/certificates/secret_certificates.h"
#include "extender/probe.h"

namespace mgpu::extender {

class Servers {
 public:
  // All of it outlives the servers.
  struct Dependencies {
    const http::ServerOptions& verbs;
    const ServiceOptions& service;
    const std::optional<CertificateOptions>& certificates;  // with verbs.tls.from_texts
    kube::Transport& transport;
    kube::Client& client;
    Metrics& metrics;
    Probe& probe;
  };
  explicit Servers(const Dependencies& dependencies);

  // Return the routers, to which routes are added before start().
  http::Router& verbs() { return verb_router_; }
  http::Router& service() { return service_router_; }
  // Starts to read the Secret, and both servers, which listen when it returns. Errors: those of
  // http::Server::start.
  Result<void> start();
  // Any thread, like the next two; the second one until end_service().
  std::uint16_t verbs_port() const { return verbs_port_; }
  std::uint16_t service_port() const { return service_server_->port(); }
  bool has_certificates() const { return !certificates_ || certificates_->available(); }
  // Starts to drain the server of the verbs.
  void drain();
  // Ends the server of the verbs, and the renewal of certificates. Not on the client's executor.
  void end_verbs();
  // Ends the other one. After end_verbs().
  void end_service() { service_server_.reset(); }

 private:
  std::unique_ptr<SecretCertificates> new_certificates();
  Result<void> use(const CertificateBundle& bundle);

  const Dependencies dependencies_;
  // Null if they are in files. It is stopped before the servers end, and destroyed after them,
  // since probes read its state.
  const std::unique_ptr<SecretCertificates> certificates_;
  http::Router verb_router_;
  http::Router service_router_;
  std::unique_ptr<ServiceServer> service_server_;
  std::unique_ptr<http::Server> verb_server_;
  std::uint16_t verbs_port_ = 0;  // stays after end_verbs()
};

}  // namespace mgpu::extender
