// One connection from its first byte to its last.
//
//   Handshaking --> Idle --first byte--> Receiving --whole request--> Answering --> Sending --+
//                    ^  |                    |                                            |   |
//                    |  | idle timeout,      | malformed, over a limit: error, close      |   |
//                    |  v drain, client gone v                                            |   |
//                    |  Closed <-------------+--------- "Connection: close", drain -------+   |
//                    +------------------------------------------------------------------------+
//
// Receiving and Sending last at most transfer_timeout each, Idle idle_timeout.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>

#include "common/http/connection.h"
#include "common/http/server.h"

namespace mgpu::http {

// What all sessions of a server share; outlives them.
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
  Session(std::unique_ptr<Connection> connection, SessionSetup& setup);

  asio::awaitable<void> run();
  // Ends the session where no request is in work. On its executor.
  void drain();
  asio::any_io_executor executor() { return connection_->executor(); }

 private:
  struct Exchange;  // one request and its answer
  // Each is true when the exchange goes on.
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<bool> receive(Exchange& exchange);
  asio::awaitable<bool> receive_until(Exchange& exchange, bool whole);
  asio::awaitable<bool> read_more();
  asio::awaitable<bool> answer(Exchange& exchange);
  asio::awaitable<bool> refuse_for(error_code failed);
  asio::awaitable<bool> refuse(int status, const char* why, std::string sentence);
  asio::awaitable<bool> send(Response response, bool keep_alive, bool with_body);
  asio::awaitable<void> linger();

  std::unique_ptr<Connection> connection_;
  SessionSetup& setup_;
  beast::flat_buffer received_;         // and not parsed yet
  asio::steady_timer answer_has_come_;  // never expires; cancelled to wake
  bool idle_ = true;
};

}  // namespace mgpu::http
