// An HTTP/2 connection after its handshake: reads, writes and checks the time, each in a coroutine
// of its own, until one of them ends the connection.
//
// A request or a response takes at most transfer_timeout, and the connection is closed when it had
// no request for idle_timeout. After connection_age_max, and when the server is draining, the
// client is told to send its next requests on another connection (GOAWAY), and this one ends with
// its last response. Pings of the client keep nothing open.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/http/answer.h"
#include "common/http/http2.h"
#include "common/http/session.h"

namespace mgpu::http {

class Http2Session {
 public:
  // `session` owns this one.
  explicit Http2Session(Session& session);

  // Ends with the connection. On the executor of the connection, as drain().
  asio::awaitable<void> run();
  void drain();

 private:
  using Clock = std::chrono::steady_clock;
  // A request that a handler has, or whose body is made in parts.
  struct Open {
    Closing<Response> response;
    bool responded = false;
    NextPart next_part{};
    std::unique_ptr<Closing<std::string>> part{};  // null: none was asked for
  };

  Http2Events events();
  void handle(Http2StreamId stream, Request request);
  asio::awaitable<void> write_all();
  asio::awaitable<void> watch();
  // Takes responses and parts that are there.
  void collect();
  void collect_response(Http2StreamId stream, Open& open);
  void collect_part(Http2StreamId stream, Open& open);
  // Whether the connection has to be closed now.
  bool is_over_time(Clock::time_point now);
  void begin_to_close();
  void note_use();
  void end();
  // Lets write_all() look again. The first one on any thread.
  void wake();
  void look_again() { changed_.cancel(); }

  Session& session_;
  Connection& connection_;
  const SessionSetup& setup_;
  Http2 frames_;
  std::map<Http2StreamId, Open> open_;
  asio::steady_timer changed_;  // never expires
  asio::steady_timer tick_;
  bool refused_ = false;  // a request, for what the client is
  bool closing_ = false;  // the client has been told
  bool ended_ = false;
  bool in_use_ = false;
  std::optional<Clock::time_point> writing_since_;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace mgpu::http
