// An HTTP/1.1 server on Boost.Beast: keep-alive, named limits, optional TLS, graceful drain.
//
//   Listening --drain()--> Draining (no new connections; idle ones close at once, answers in work
//                          are sent with "Connection: close") --all closed or time out--> Stopped
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/http/limits.h"
#include "common/http/message.h"

namespace mgpu::http {

// Files are read again when they change; a change that cannot be used is reported, and the old
// certificate goes on serving.
struct TlsOptions {
  std::string certificate_file;  // PEM chain; empty = plain HTTP
  std::string key_file;
  std::string client_ca_file{};  // not empty: a client without a certificate of it is refused
};

struct ServerOptions {
  std::string address = "0.0.0.0";
  std::uint16_t port = 0;  // 0 = any free one
  std::size_t threads = 2;
  TlsOptions tls;
  std::size_t header_bytes_max = kHttpHeaderBytesMax;
  std::size_t body_bytes_max = kHttpBodyBytesMax;
  std::size_t connections_max = kHttpConnectionsMax;
  std::chrono::milliseconds idle_timeout = kHttpIdleTimeout;
  std::chrono::milliseconds transfer_timeout = kHttpTransferTimeout;
  std::chrono::milliseconds tls_reload_interval{5'000};
  std::chrono::milliseconds drain_timeout = kDrainTimeout;  // of the destructor
};

// What the server counts and tells; every member may be empty. Any thread.
struct ServerEvents {
  std::function<void(std::size_t open)> on_connections;
  // Why a connection was refused or cut: "body_too_large", "header_too_large", "malformed",
  // "too_many_connections", "slow_client", "tls_handshake".
  std::function<void(const char* why)> on_refused;
  std::function<void(const std::string& problem)> on_problem;  // one sentence, for the log
};

class Server {
 public:
  // Listens when it returns. Errors: address not valid, port in use, certificate not usable: one
  // sentence each.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler handler,
                                               ServerEvents events);
  // Drains for at most drain_timeout, then cuts what is left. Blocks. REQUIRES: not on a thread of
  // the server.
  ~Server();

  std::uint16_t port() const;
  // Begins to drain; returns at once. Idempotent, any thread.
  void drain();
  // Waits for the end of a drain, at most `timeout`. True when every connection has ended.
  bool wait_drained(std::chrono::milliseconds timeout);

 private:
  struct State;
  explicit Server(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::http
