// The frames of an HTTP/2 connection of a server (RFC 9113), on nghttp2: bytes of the client become
// requests, and responses become bytes. A stream is one request and its response:
//
//   Receiving --whole--> Waiting --respond()--> Sending --all sent--> closed
//       |                   ^                     | ^
//       |                   +------part sent------+ |   (a body in parts)
//       +-----------------refused-------------------+
//
// A stream whose response ends before its request is reset with NO_ERROR (RFC 9113, 8.1). A client
// may end a stream, and each stream ends with its connection. No I/O and no clock. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/http/limits.h"
#include "common/http/message.h"
#include "common/http/request_fields.h"
#include "common/http/request_source.h"

struct nghttp2_session;

namespace mgpu::http {

using Http2StreamId = std::int32_t;

// None may be empty. They are called by receive() and output(), on their thread, and must not call
// Http2Frames.
struct Http2Events {
  // The headers have arrived. A returned response is sent instead of on_request(), and is not
  // reported by on_refused().
  std::function<std::optional<Response>(const RequestSource&)> on_headers;
  std::function<void(Http2StreamId, Request)> on_request;
  // Each stream that has begun, once, but not from the destructor.
  std::function<void(Http2StreamId)> on_closed;
  // "malformed": the stream is reset, or the connection ends. "too_many_resets": shut_down() has
  // been called. "header_too_large", "body_too_large" and "bodies_too_large": the request got a
  // response with this reason.
  std::function<void(const char* why)> on_refused;
};

struct Http2Limits {
  std::size_t header_bytes;  // names and values of a request
  // The most of one request, and half of the most of all requests that a connection is receiving.
  std::size_t body_bytes;
};

class Http2Frames {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Http2Frames(Http2Limits limits, Http2Events events);
  ~Http2Frames();
  Http2Frames(const Http2Frames&) = delete;
  Http2Frames& operator=(const Http2Frames&) = delete;

  // The time of the calls that follow, for transfer_since().
  void set_now(TimePoint now) { now_ = now; }
  // False if the connection must be closed now, without more output. A malformed request resets its
  // stream only (RFC 9113, 8.1.1); after an error of the connection, output() ends with GOAWAY and
  // is_done() is true.
  bool receive(std::string_view bytes);
  // What is to be sent next, at most about kHttp2WriteBytes; empty if there is nothing.
  std::string output();

  // Nothing happens if the stream has been closed, or has a response. What arrives of its request
  // afterwards is discarded. The body of a response with next_part consists of the parts of
  // add_part(); next_part is not called.
  void respond(Http2StreamId stream, const Response& response);
  // An empty part ends the body. Nothing happens unless wants_part().
  void add_part(Http2StreamId stream, std::string part);
  // True if the part before has been given to output().
  bool wants_part(Http2StreamId stream) const;

  // Sends GOAWAY. Requests that begin after this call are not handled, and the client may repeat
  // them on another connection (RFC 9113, 6.8). is_done() is true when the others have ended.
  void shut_down();
  // True if nothing will be sent or received any more.
  bool is_done() const;
  // Returns whether shut_down() was called, or the client has had too many streams reset.
  bool is_shutting_down() const { return shutting_down_; }
  bool has_streams() const { return !streams_.empty(); }
  // Bytes of bodies of requests that are being received.
  std::size_t receiving_bytes() const { return receiving_; }
  // Bytes of bodies of responses that output() has not had.
  std::size_t unsent_bytes() const { return unsent_; }
  // When the oldest transfer began that has not ended: of a request, of a response, or of a part.
  std::optional<TimePoint> transfer_since() const;

 private:
  struct Stream;
  struct Callbacks;  // of nghttp2

  void add_header(Stream& stream, std::string_view name, std::string_view value);
  void end_headers(Http2StreamId id, Stream& stream, bool whole);
  void add_body(Http2StreamId id, Stream& stream, std::string_view bytes);
  void end_request(Http2StreamId id, Stream& stream);
  void refuse(Http2StreamId id, const char* why, const Response& response);
  // The number of bytes, or an error code of nghttp2 that defers.
  ssize_t read_body(Stream& stream, std::uint8_t* into, std::size_t length, std::uint32_t* flags);
  void note_reset();
  // Whether the counts of bytes are those of the streams. For checks.
  bool is_consistent() const;

  const Http2Limits limits_;
  const Http2Events events_;
  std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)> session_;
  std::map<Http2StreamId, std::unique_ptr<Stream>> streams_;
  std::size_t receiving_ = 0;
  std::size_t unsent_ = 0;
  std::size_t malformed_ = 0;  // frames
  bool shutting_down_ = false;
  double resets_left_ = static_cast<double>(kHttp2ResetsMax);
  TimePoint last_reset_{};
  TimePoint now_{};
};

}  // namespace mgpu::http
