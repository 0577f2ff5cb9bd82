// An HTTP client that sends any bytes, over TCP or TLS, for tests of an HTTP server. Calls block
// for at most kRawWait, so that a failed test does not hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace mgpu::test {

inline constexpr std::chrono::seconds kRawWait{20};

struct RawResponse {
  int status = 0;                              // 0: the connection was closed first
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct RawTls {
  std::string ca_file;
  std::string certificate_file{};  // of the client; empty: none
  std::string key_file{};
  std::string protocols{};  // for ALPN, comma separated; empty: none
  int version_max = 0;      // such as TLS1_1_VERSION; 0: any
  bool resume = false;      // with the last session ticket that any client received
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  RawClient(std::uint16_t port, const RawTls& tls);
  ~RawClient();
  RawClient(RawClient&&) noexcept;

  // True if the TCP connection, and the TLS handshake if any, succeeded.
  bool connected() const;
  // The protocol from ALPN, or empty.
  std::string protocol() const;
  // True if the TLS session was resumed with a ticket.
  bool resumed() const;
  // The common name in the server certificate.
  std::string server_name() const;

  // False if the server has closed the connection.
  bool send(std::string_view bytes);
  // Shuts down the sending direction.
  void end_sending();
  // The next response. `with_body` is false after HEAD.
  RawResponse read_response(bool with_body = true);
  // The bytes that have arrived, at least one; none if the server has closed, or after kRawWait.
  std::string read_some();
  // True if read_some() got none because the server has closed the connection.
  bool is_closed() const;
  // All bytes until the server closes.
  std::string read_to_end();
  // True if the server closes the connection without sending another byte.
  bool ends();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "POST path HTTP/1.1" with Host, Content-Length and `body`.
std::string post_text(std::string_view path, std::string_view body);
std::string get_text(std::string_view path);

}  // namespace mgpu::test
