// A client that writes and reads exactly the bytes it is told to, over plain TCP or TLS, for tests
// of an HTTP server. Blocking; every wait ends after kRawWait, so that a failed test does not hang.
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
  int status = 0;                              // 0: the connection ended first
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct RawTls {
  std::string ca_file;
  std::string certificate_file{};  // of the client; empty: none
  std::string key_file{};
  std::string protocols{};  // for ALPN, comma separated; empty: none
  int version_max = 0;      // such as TLS1_1_VERSION; 0: any
  bool resume = false;      // offer the last session that a server gave to any client
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  RawClient(std::uint16_t port, const RawTls& tls);
  ~RawClient();
  RawClient(RawClient&&) noexcept;

  // The TCP connection, and the TLS handshake where there is one, succeeded.
  bool connected() const;
  // Chosen by ALPN; empty: none.
  std::string protocol() const;
  // Whether the TLS session was resumed by a ticket.
  bool resumed() const;
  // The certificate that the server showed: its subject's common name.
  std::string server_name() const;

  // False when the server has closed the connection.
  bool send(std::string_view bytes);
  // Nothing more will be sent; answers can still be read.
  void end_sending();
  // The next answer; `with_body` false after HEAD.
  RawResponse read_response(bool with_body = true);
  // All bytes until the server closes.
  std::string read_to_end();
  // True when the server closes without another byte.
  bool ends();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "POST path HTTP/1.1" with Host, Content-Length and `body`.
std::string post_text(std::string_view path, std::string_view body);
std::string get_text(std::string_view path);

}  // namespace mgpu::test
