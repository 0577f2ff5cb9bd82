// A server that sends any bytes, over TCP or TLS, for tests of an HTTP client. Each connection runs
// the script on a thread of its own. Calls block for at most kScriptWait.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mgpu::test {

inline constexpr std::chrono::seconds kScriptWait{20};

// A connection of the server, for the script.
class Peer {
 public:
  virtual ~Peer() = default;
  // The next request, head and body. Empty if the client has closed the connection, or after
  // kScriptWait.
  virtual std::string read_request() = 0;
  // False if the client has closed the connection.
  virtual bool send(std::string_view bytes) = 0;
  // Waits until the client closes the connection.
  virtual void wait_for_end() = 0;
  // 0 for the first connection.
  virtual int number() const = 0;
};

struct ServerTls {
  std::string certificate_file;
  std::string key_file;
  std::string client_ca_file;  // empty: clients need no certificate
};

class ScriptedServer {
 public:
  // The connection is closed after the script has returned.
  using Script = std::function<void(Peer&)>;

  explicit ScriptedServer(Script script);
  ScriptedServer(Script script, const ServerTls& tls);
  // Closes all connections and waits for their scripts.
  ~ScriptedServer();

  std::uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "HTTP/1.1 200 OK" with Content-Length, `headers` ("Name: value\r\n" each) and `body`.
std::string answer_text(int status, std::string_view body, std::string_view headers = "");
// The head of a chunked response with status 200, and one chunk.
std::string chunked_head();
std::string chunk(std::string_view text);

// The value of a header of `request`, or empty. The name is case-insensitive.
std::string header_of(std::string_view request, std::string_view name);

}  // namespace mgpu::test
