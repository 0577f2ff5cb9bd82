// The session of one connection.
//
//   Handshaking --> Idle --first byte--> Receiving --whole request--> Answering --> Sending --+
//                    ^  |                    |                                            |   |
//                    |  | idle timeout,      | malformed, over a limit: error, close      |   |
//                    |  v drain, disconnect  v                                            |   |
//                    |  Closed <-------------+--------- "Connection: close", drain -------+   |
//                    +------------------------------------------------------------------------+
//
// Receiving and Sending take at most transfer_timeout each, and Idle at most idle_timeout.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>

#include "common/http/connection.h"
#include "common/http/server.h"

namespace mgpu::http {

// Shared by all sessions of a server, and outlives them.
struct SessionSetup {
  ServerOptions options;
  Handler handler;
  ServerEvents events;
  std::atomic<bool> draining{false};

  void refused(const char* why) const {
    if (events.on_refused) events.on_refused(why);
  }
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<ssl::context> context, SessionSetup& setup);

  asio::awaitable<void> run();
  // Closes the connection unless a request is being handled. Runs on the executor.
  void drain();
  asio::any_io_executor executor() { return connection_.executor(); }

 private:
  struct Exchange;  // one request and its response
  // Each returns whether the connection stays open.
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<bool> receive(Exchange& exchange);
  asio::awaitable<bool> receive_until(Exchange& exchange, bool whole);
  asio::awaitable<bool> answer(Exchange& exchange);
  asio::awaitable<bool> refuse(error_code failed);
  asio::awaitable<bool> send(Response response, bool keep_alive, bool with_body);
  // Reads and discards, so that the client can read the last response.
  asio::awaitable<void> linger();

  Connection connection_;
  SessionSetup& setup_;
  beast::flat_buffer received_;      // and not yet parsed
  asio::steady_timer has_response_;  // never expires; cancelled when the response is there
  bool idle_ = true;
};

}  // namespace mgpu::http
