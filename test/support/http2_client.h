// An HTTP/2 client over TLS for tests of a server, on nghttp2. Each read blocks for at most
// kRawWait.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "test/support/raw_http.h"

namespace mgpu::test {

struct Http2Answer {
  int status = 0;  // 0: none has arrived
  std::map<std::string, std::string> headers;
  std::string body;
  bool ended = false;       // all of it has arrived, or the server has reset the stream
  std::uint32_t error = 0;  // of the reset (RFC 9113, section 7)
  int informational = 0;    // the status of the last response before, such as 100
};

struct Http2Ask {
  std::string method = "GET";
  std::string path = "/";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string authority = "localhost";
  bool whole = true;  // false: finish() sends the rest
};

class Http2Client {
 public:
  explicit Http2Client(RawClient raw);
  ~Http2Client();

  // Sends a request; returns its stream.
  std::int32_t ask(const Http2Ask& ask);
  void finish(std::int32_t stream, const std::string& rest);
  void reset(std::int32_t stream);
  void ping();
  // Reads until the stream has ended, or the connection has.
  Http2Answer answer(std::int32_t stream);
  // Reads until the headers, or this much of the body has arrived, or the connection has ended.
  Http2Answer begin_of_answer(std::int32_t stream, std::size_t bytes = 0);
  // Reads until an informational response has arrived, or the connection has ended.
  int informational(std::int32_t stream);
  // ask() and answer().
  Http2Answer exchange(const Http2Ask& ask);
  // Reads until the server sends GOAWAY; false if the connection has ended before.
  bool receives_goaway();
  // True if the server closes the connection.
  bool ends();
  RawClient& raw();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::test
