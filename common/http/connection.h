// The bytes of one connection, plain or TLS. Runs on one thread; every wait fails with
// beast::error::timeout at the deadline.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "common/http/client_certificate.h"

namespace mgpu::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ssl = boost::asio::ssl;
using boost::asio::ip::tcp;
using boost::system::error_code;

// Waits return their error instead of throwing it.
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

struct Transferred {
  error_code failed;
  std::size_t bytes = 0;
};

class Connection {
 public:
  // Plain without a context.
  Connection(tcp::socket socket, std::shared_ptr<ssl::context> context);

  asio::awaitable<error_code> handshake();
  // Returns the certificate after the handshake; none over plain HTTP.
  std::optional<ClientCertificate> client_certificate();
  // Returns the protocol that ALPN chose; empty if none, and over plain HTTP.
  std::string_view protocol();
  asio::awaitable<Transferred> read_some(asio::mutable_buffer into);
  // Writes all of `head`, then all of `body`.
  asio::awaitable<error_code> write(std::string_view head, std::string_view body);
  // Signals the end of the data to the client.
  asio::awaitable<void> end_writing();
  // The same at once, without the end that TLS has. For protocols that have one of their own.
  void shut_down_writing();
  // Reads below TLS, for data that is discarded.
  asio::awaitable<Transferred> read_raw(asio::mutable_buffer into);

  // Waits until the client sends something or closes its side. Other waits may run beside it.
  asio::awaitable<void> wait_for_client();

  // Sets the deadline of all waits that start after this call.
  void set_deadline(std::chrono::milliseconds from_now) { tcp_.expires_after(from_now); }
  // Removes the deadline of all waits that start after this call.
  void clear_deadline() { tcp_.expires_never(); }
  // True if bytes have arrived that have not been read.
  bool has_unread() const;
  // Ends all waits.
  void close() { tcp_.close(); }
  asio::any_io_executor executor() { return tcp_.get_executor(); }

 private:
  beast::tcp_stream tcp_;
  std::shared_ptr<ssl::context> context_;
  std::optional<ssl::stream<beast::tcp_stream&>> tls_;
};

}  // namespace mgpu::http
