// An HTTP/1.1 server on Boost.Beast, and HTTP/2 on nghttp2, with keep-alive, limits, optional TLS
// and graceful drain.
//
//   Listening --drain()--> Draining --all connections closed, or timeout--> Stopped
//
// While it is draining, the server accepts no connections and closes idle ones. Pending responses
// are sent with "Connection: close", or after GOAWAY.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/http/limits.h"
#include "common/http/message.h"

namespace mgpu::http {

// PEM texts, for Server::use_tls().
struct TlsTexts {
  std::string certificate;  // chain
  std::string key;
  std::string client_ca;  // if not empty, clients need a certificate that is signed by one of these
};

// The files are reloaded when they change. If the new files are not valid, this is reported and the
// server continues to use the old certificate.
struct TlsOptions {
  std::string certificate_file{};  // PEM chain; empty: plain HTTP
  std::string key_file{};
  std::string client_ca_file{};  // if set, clients need a certificate that is signed by this CA
  // If set, the certificate of a client needs one of these names: its common name, or a DNS name of
  // its SAN extension. Other clients of the CA get 403.
  std::vector<std::string> client_names{};
  // The server gets texts by Server::use_tls() instead of files. It listens before the first call,
  // and closes each connection.
  bool from_texts = false;
  // HTTP/2 is offered beside HTTP/1.1. kube-scheduler then uses one connection for all requests; in
  // HTTP/1.1 it keeps two open, so that a burst of binds needs a handshake for most of them.
  bool http2 = false;

  bool enabled() const { return from_texts || !certificate_file.empty(); }
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port
  // On a loopback address the Host header of a request must be localhost, an address of
  // 127.0.0.0/8, [::1] or one of these; others get 421. The header Origin, if there is one, must be
  // of such a host; others get 403. So a web page cannot send requests in the name of a local user.
  std::vector<std::string> host_names{};
  std::size_t threads = 2;
  TlsOptions tls;
  std::size_t header_bytes_max = kHttpHeaderBytesMax;
  std::size_t body_bytes_max = kHttpBodyBytesMax;
  std::size_t connections_max = kHttpConnectionsMax;
  // For clients that have not presented an allowed certificate, and not on a loopback address. See
  // admission.h.
  std::size_t connections_per_address_max = kHttpConnectionsPerAddressMax;
  std::chrono::milliseconds connection_age_max = kHttpConnectionAgeMax;
  std::chrono::milliseconds idle_timeout = kHttpIdleTimeout;
  std::chrono::milliseconds transfer_timeout = kHttpTransferTimeout;
  std::chrono::milliseconds tls_reload_interval{5'000};
  std::chrono::milliseconds drain_timeout = kDrainTimeout;  // of the destructor
};

// Callbacks for metrics and logs, on any thread. Each may be empty.
struct ServerEvents {
  std::function<void(std::size_t open)> on_connections;
  // Why a connection was refused or closed, or in HTTP/2 one request: "body_too_large",
  // "header_too_large", "malformed", "too_many_connections", "too_many_connections_of_address",
  // "closed_for_another", "slow_client", "tls_handshake", "no_certificate", "client_name",
  // "client_expired", "host" or "origin"; of HTTP/2 also "bodies_too_large",
  // "too_many_resets" and "too_many_unsent_bytes".
  std::function<void(const char* why)> on_refused;
  std::function<void(const std::string& problem)> on_problem;  // one sentence, for the log
};

class Server {
 public:
  // The server is listening after it has returned. Errors: invalid address, port in use, invalid
  // certificate.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler handler,
                                               ServerEvents events);
  // Drains for at most drain_timeout and closes the remaining connections. REQUIRES: not called on
  // a thread of the server.
  ~Server();

  std::uint16_t port() const;
  // For the connections that begin afterwards. After an error the old texts stay in use.
  // Thread-safe. REQUIRES: TlsOptions::from_texts.
  Result<void> use_tls(const TlsTexts& texts);
  // Starts to drain; does not block. Idempotent, thread-safe.
  void drain();
  // Waits until all connections have been closed by drain(). False after `timeout`.
  bool wait_drained(std::chrono::milliseconds timeout);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::http
