// The bytes of one connection, plain or TLS, so that session.cc reads the same for both.
// On one strand; every wait ends at the deadline, with beast::error::timeout.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "common/http/net.h"

namespace boost::asio::ssl {
class context;
}

namespace mgpu::http {

struct Transferred {
  error_code failed;
  std::size_t bytes = 0;
};

class Connection {
 public:
  // Without a context the connection is plain.
  static std::unique_ptr<Connection> over(tcp::socket socket,
                                          std::shared_ptr<ssl::context> context);
  virtual ~Connection() = default;

  virtual asio::awaitable<error_code> handshake() = 0;
  virtual asio::awaitable<Transferred> read_some(asio::mutable_buffer into) = 0;
  // All of `head`, then all of `body`.
  virtual asio::awaitable<error_code> write(std::string_view head, std::string_view body) = 0;
  // Tells the client that nothing more will come.
  virtual asio::awaitable<error_code> end_writing() = 0;

  // Of all waits from now on.
  void deadline(std::chrono::milliseconds from_now) { tcp_.expires_after(from_now); }
  // Without TLS, for what is dropped anyway.
  asio::awaitable<Transferred> read_raw(asio::mutable_buffer into);
  // Bytes have arrived that were not read yet.
  bool has_unread() const;
  // Ends all waits.
  void close() { tcp_.close(); }
  asio::any_io_executor executor() { return tcp_.get_executor(); }

 protected:
  explicit Connection(tcp::socket socket) : tcp_(std::move(socket)) {}
  beast::tcp_stream tcp_;
};

}  // namespace mgpu::http
