// An HTTP/2 connection after its handshake: reads, writes and checks the time, each in a coroutine
// of its own, until one of them ends the connection.
//
// A request or a response takes at most transfer_timeout, and the connection is closed when it had
// no request for idle_timeout. After connection_age_max, with a response that is the last, and when
// the server is draining, the server sends GOAWAY, so that the client sends its next requests on
// another connection, and this one ends with its last response. Pings of the client keep nothing
// open. Times are checked four times in the shortest of them, so that each may be exceeded by a
// quarter of that. Handlers run elsewhere, so that one that takes long stops neither the others nor
// the responses of this connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/http/answer.h"
#include "common/http/http2_frames.h"
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
  struct Ending;
  // A request that a handler has, or whose body is made in parts.
  struct Open {
    Closing<Response> response;
    bool responded = false;
    NextPart next_part{};
    std::unique_ptr<Closing<std::string>> part{};  // null: none was requested
  };

  Http2Events events();
  void begin_writing_and_watching();
  asio::awaitable<void> read_all();
  asio::awaitable<void> write_all();
  asio::awaitable<void> watch();

  // False if the connection must end.
  bool take_input(std::string_view bytes);
  void handle(Http2StreamId stream, Request request);
  // What to write now; empty if there is nothing, or the connection has ended.
  std::string next_output();
  // Takes responses and parts that are there.
  void collect();
  void collect_response(Http2StreamId stream, Open& open);
  void collect_part(Http2StreamId stream, Open& open);

  void check_times(Clock::time_point now);
  bool is_slow(Clock::time_point now) const;
  // Notes whether handlers have requests, for admit(), and whether the connection has streams.
  void note_use();
  void end();
  void end_because(const char* why);
  // write_all() checks again whether there is output. The first one may be called on any thread.
  void post_resume_writing();
  void resume_writing() { changed_.cancel(); }

  Session& session_;
  Connection& connection_;
  const SessionSetup& setup_;
  Http2Frames frames_;
  std::map<Http2StreamId, Open> open_;
  asio::steady_timer changed_;  // never expires
  asio::steady_timer tick_;
  // A request was refused because of its client or its source: the connection is to end.
  bool has_refused_ = false;
  bool closing_ = false;  // GOAWAY has been sent
  bool done_ = false;     // everything has been written
  bool ended_ = false;
  bool has_streams_ = false;
  bool has_requests_ = false;
  std::optional<Clock::time_point> writing_since_;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace mgpu::http
