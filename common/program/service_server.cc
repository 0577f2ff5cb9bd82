#include "common/program/service_server.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/http/address.h"

namespace mgpu {

namespace {

// They name no objects, so that everybody may read them.
constexpr std::array<std::string_view, 3> kProbes = {"/healthz", "/livez", "/readyz"};

}  // namespace

ServiceServer::ServiceServer(const ServiceOptions& options, const http::Router& router,
                             kube::Transport& transport)
    : guard_([&] {
        if (http::is_loopback(options.http.address)) return Guard::kNone;
        const bool tls = options.http.tls.enabled();
        return tls || options.insecure ? Guard::kTokens : Guard::kClosed;
      }()),
      router_(router),
      executor_(guard_ == Guard::kTokens ? std::make_unique<AsioExecutor>() : nullptr),
      access_(transport) {}

Result<std::unique_ptr<ServiceServer>> ServiceServer::start(const ServiceOptions& options,
                                                            const http::Router& router,
                                                            kube::Transport& transport,
                                                            http::ServerEvents events) {
  std::unique_ptr<ServiceServer> service(new ServiceServer(options, router, transport));
  auto server = http::Server::start(
      options.http,
      [self = service.get()](http::Request request, http::Respond respond) {
        self->handle(std::move(request), std::move(respond));
      },
      events);
  if (!server) return server.error();
  service->server_ = std::move(*server);
  if (!options.local) return service;
  http::ServerOptions local_options = options.http;
  local_options.address = options.local->address;
  local_options.port = options.local->port;
  local_options.tls = {};
  // The count of open connections is that of the other listener.
  events.on_connections = {};
  auto local = http::Server::start(
      std::move(local_options),
      [&router](http::Request request, http::Respond respond) {
        router.route(std::move(request), std::move(respond));
      },
      std::move(events));
  if (!local) return error("--local-metrics-bind-address: " + local.error().message);
  service->local_server_ = std::move(*local);
  return service;
}

void ServiceServer::handle(http::Request request, http::Respond respond) {
  const bool probe = std::ranges::find(kProbes, request.path) != kProbes.end();
  if (probe || guard_ == Guard::kNone) return router_.route(std::move(request), std::move(respond));
  if (guard_ == Guard::kClosed) {
    return respond(http::error_response(
        403, "metrics and inspection need TLS on this address, or the flag --insecure-listen"));
  }
  const auto shared = std::make_shared<http::Request>(std::move(request));
  access_.check(*shared, [this, shared, respond](Access access) {
    shared->authorization.clear();
    if (!access.allowed) return respond(std::move(access.refusal));
    executor_->post([this, shared, respond] { router_.route(std::move(*shared), respond); });
  });
}

http::ServerEvents server_events(Metrics& metrics, const std::string& prefix,
                                 const std::string& listener) {
  const std::string refused = prefix + "_http_refused_total";
  Gauge& open = metrics.gauge(prefix + "_http_connections", "Open connections, by listener.",
                              {{"listener", listener}});
  http::ServerEvents events;
  events.on_connections = [&open](std::size_t count) { open.Set(static_cast<double>(count)); };
  events.on_refused = [&metrics, refused, listener](const char* why) {
    metrics
        .counter(refused, "Connections refused or closed early, by listener and reason.",
                 {{"listener", listener}, {"why", why}})
        .Increment();
    log_debug("connection refused", {{"listener", listener}, {"why", why}});
  };
  events.on_problem = [listener](const std::string& problem) {
    log_warn("HTTP server problem", {{"listener", listener}, {"problem", problem}});
  };
  return events;
}

}  // namespace mgpu
