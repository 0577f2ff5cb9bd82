// The session of one connection. After the handshake it is an Http2Session if the client and the
// server have agreed on HTTP/2; this is HTTP/1.1:
//
//   Handshaking --> Idle --first byte--> Receiving --whole request--> Answering --> Sending --+
//                    ^  |                    |                                            |   |
//                    |  | idle timeout,      | malformed, over a limit: error, close      |   |
//                    |  v drain, disconnect  v                                            |   |
//                    |  Closed <-------------+--------- "Connection: close", drain -------+   |
//                    +------------------------------------------------------------------------+
//
// A body in parts (NextPart) is Sending until it ends, or drain, connection_age_max or the client
// ends it. Each part takes at most transfer_timeout, which the time until there is a part does not
// count for.
//
// Receiving and Sending take at most transfer_timeout each, and Idle at most idle_timeout. After
// connection_age_max the next response ends the connection, as does one that is the last.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/http/admission.h"
#include "common/http/connection.h"
#include "common/http/request_source.h"
#include "common/http/server.h"

namespace mgpu::http {

// Shared by all sessions of a server, and outlives them.
struct SessionSetup {
  ServerOptions options;
  Handler handler;
  ServerEvents events;
  asio::any_io_executor handlers{};  // where those of HTTP/2 run
  bool loopback = false;             // the address of the server
  std::atomic<bool> draining{false};

  void refused(const char* why) const {
    if (events.on_refused) events.on_refused(why);
  }
  std::chrono::milliseconds grace_timeout() const;
};

// What a server has recorded of a connection, for admit(). Thread-safe.
class ConnectionRecord {
 public:
  explicit ConnectionRecord(std::string address);

  void wait();   // for the client, after a response
  void work();   // a request has arrived
  void trust();  // the client has presented an allowed certificate
  void set_closing(bool closing);
  OpenConnection state() const;

 private:
  mutable Mutex mutex_;
  OpenConnection state_ MGPU_GUARDED_BY(mutex_);
};

class Http2Session;

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `address` is that of the client.
  Session(tcp::socket socket, std::string address, std::shared_ptr<ssl::context> context,
          SessionSetup& setup);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  asio::awaitable<void> run();
  // HTTP/1.1: closes the connection unless a request is being handled. HTTP/2: ends it with the
  // last response. Runs on the executor.
  void drain();
  // Closes the connection if it still waits for its client. Runs on the executor.
  void close_for_another();
  ConnectionRecord& record() { return record_; }
  // Its executor(): any thread.
  Connection& connection() { return connection_; }

  // For Http2Session, on the executor.
  const SessionSetup& setup() const { return setup_; }
  // The response to a client that may not send this request.
  std::optional<Response> refusal_of(const RequestSource& source) const;
  bool is_too_old() const;
  bool is_allowed() const { return allowed_; }
  std::chrono::milliseconds idle_timeout() const;

 private:
  struct Exchange;  // one request and its response
  // Each returns whether the connection stays open.
  asio::awaitable<bool> handshake();
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<bool> receive(Exchange& exchange);
  asio::awaitable<bool> receive_until(Exchange& exchange, bool whole);
  asio::awaitable<bool> answer(Exchange& exchange);
  asio::awaitable<bool> refuse(error_code failed);
  asio::awaitable<bool> send(Response response, bool keep_alive, bool with_body);
  // session_parts.cc. The connection does not stay open.
  asio::awaitable<bool> send_parts(Response response, bool chunked, bool with_body);
  asio::awaitable<std::string> next_part(const NextPart& next);
  asio::awaitable<error_code> send_part(std::string part, bool chunked);
  asio::awaitable<void> watch_client();
  // Ends the wait for a response or a part, which then checks again. Any thread.
  void end_wait();
  // Reads and discards, so that the client can read the last response.
  asio::awaitable<void> discard_rest();

  Connection connection_;
  SessionSetup& setup_;
  ConnectionRecord record_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<ClientCertificate> certificate_;
  bool allowed_ = true;          // by the name in the certificate
  beast::flat_buffer received_;  // and not yet parsed
  // Cancelled when the response or a part is there; expires at connection_age_max while a body is
  // sent in parts, otherwise never.
  asio::steady_timer has_response_;
  bool idle_ = true;
  bool client_gone_ = false;             // while a body is sent in parts
  std::unique_ptr<Http2Session> http2_;  // null: HTTP/1.1
};

}  // namespace mgpu::http
