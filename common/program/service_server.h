// The listener for probes, metrics and inspection, which both programs have.
//
//   /healthz, /livez, /readyz   every client
//   all other paths             on a loopback address every client; on another address clients with
//                               a bearer token whose user has the right to use the method on this
//                               non-resource URL (TokenAccess): 401, 403 or 503 otherwise
//
// A token that is sent without TLS can be read on its way. Therefore, a server without TLS on
// another address than loopback answers 403 to all paths but the probes, unless `insecure` is set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/asio_executor.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/http/address.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/kube/transport.h"
#include "common/program/token_access.h"

namespace mgpu {

struct ServiceOptions {
  http::ServerOptions http;
  bool insecure = false;
  // A loopback address that serves all paths as plain HTTP without tokens, in addition.
  std::optional<http::Endpoint> local{};
};

class ServiceServer {
 public:
  // The server is listening after it has returned. `router` and `transport` outlive it. Errors:
  // those of http::Server::start.
  static Result<std::unique_ptr<ServiceServer>> start(const ServiceOptions& options,
                                                      const http::Router& router,
                                                      kube::Transport& transport,
                                                      http::ServerEvents events);

  std::uint16_t port() const { return server_->port(); }
  // REQUIRES: options.local.
  std::uint16_t local_port() const { return local_server_->port(); }
  // See http::Server::use_tls().
  Result<void> use_tls(const http::TlsTexts& texts) { return server_->use_tls(texts); }

 private:
  ServiceServer(const ServiceOptions& options, const http::Router& router,
                kube::Transport& transport);

  void handle(http::Request request, http::Respond respond);

  enum class Guard { kNone, kTokens, kClosed };
  const Guard guard_;
  const http::Router& router_;
  // Runs handlers after a check, so that they do not occupy the executor of the transport.
  std::unique_ptr<AsioExecutor> executor_;
  TokenAccess access_;
  // They end first, because they use the others.
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Server> local_server_;
};

// Events that count and log what happens on a listener:
//
//   <prefix>_http_connections{listener}          open connections
//   <prefix>_http_refused_total{listener,why}    connections that were refused or closed early
//
// `metrics` outlives the server.
http::ServerEvents server_events(Metrics& metrics, const std::string& prefix,
                                 const std::string& listener);

}  // namespace mgpu
