// The frames of an HTTP/2 connection of a server (RFC 9113), on nghttp2: bytes of the client become
// requests, and responses become bytes. A stream is one request and its response:
//
//   Receiving --whole, or refused--> Waiting --respond()--> Sending --all sent--> closed
//                                       ^                     |
//                                       +-----part sent-------+   (a body in parts)
//
// A client may end a stream, and each stream ends with its connection. No I/O and no clock. One
// thread, and no function is called from within an event.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/message.h"
#include "common/http/request_source.h"

namespace mgpu::http {

using Http2StreamId = std::int32_t;

struct Http2Events {
  // The headers have arrived, and the body has not. A response refuses the request.
  std::function<std::optional<Response>(const RequestSource&)> on_headers;
  std::function<void(Http2StreamId, Request)> on_request;
  std::function<void(Http2StreamId)> on_closed;
  // "malformed", "header_too_large" or "body_too_large".
  std::function<void(const char* why)> on_refused;
};

struct Http2Limits {
  std::size_t header_bytes;  // names and values of a request
  std::size_t body_bytes;    // of all requests together that are being received
};

class Http2 {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Http2(Http2Limits limits, Http2Events events);
  ~Http2();
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  // The time of receive(), respond() and add_part(), for transfer_since().
  void set_now(TimePoint now) { now_ = now; }
  // False if the client breaks the protocol in a way that ends the connection at once. Otherwise
  // output() may end with the frame that reports the error, and is_done() is true afterwards.
  bool receive(std::string_view bytes);
  // What is to be sent next, at most about kHttp2WriteBytes; empty if there is nothing.
  std::string output();

  // Nothing happens if the stream has been closed. The body of a response with next_part is what
  // add_part() gives; next_part is not called.
  void respond(Http2StreamId stream, const Response& response);
  // An empty part ends the body. REQUIRES: the part before has been sent.
  void add_part(Http2StreamId stream, std::string part);
  bool wants_part(Http2StreamId stream) const;

  // New streams are refused from now on, and is_done() is true when the others have been closed.
  void shut_down();
  // True if nothing will be sent or received any more.
  bool is_done() const;
  bool has_streams() const { return !streams_.empty(); }
  // Bytes of responses that have not been sent, most of them because the client does not read.
  std::size_t unsent_bytes() const { return unsent_; }
  // When the oldest stream began to be received, or to be sent what it is being sent.
  std::optional<TimePoint> transfer_since() const;

 private:
  struct Stream;
  struct Callbacks;  // of nghttp2

  void begin(Http2StreamId id);
  void add_header(Stream& stream, std::string_view name, std::string_view value);
  void end_headers(Http2StreamId id, Stream& stream);
  void add_body(Http2StreamId id, Stream& stream, std::string_view bytes);
  void end_request(Http2StreamId id, Stream& stream);
  void refuse(Http2StreamId id, Stream& stream, const char* why, const Response& response);
  // The number of bytes, or an error code of nghttp2 that defers.
  ssize_t read_body(Stream& stream, std::uint8_t* into, std::size_t length, std::uint32_t* flags);
  void end_stream(Http2StreamId id);

  const Http2Limits limits_;
  const Http2Events events_;
  std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)> session_;
  std::map<Http2StreamId, std::unique_ptr<Stream>> streams_;
  std::size_t received_ = 0;  // bytes of bodies of requests that are being received
  std::size_t unsent_ = 0;
  TimePoint now_{};
};

}  // namespace mgpu::http
