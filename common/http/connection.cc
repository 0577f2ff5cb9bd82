#include "common/http/connection.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace mgpu::http {

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

template <class Stream>
asio::awaitable<Transferred> read_from(Stream& stream, asio::mutable_buffer into) {
  const auto [failed, bytes] = co_await stream.async_read_some(into, kAwait);
  co_return Transferred{failed, bytes};
}

template <class Stream>
asio::awaitable<error_code> write_to(Stream& stream, std::string_view head, std::string_view body) {
  const std::array<asio::const_buffer, 2> both = {asio::buffer(head), asio::buffer(body)};
  const auto [failed, bytes] = co_await asio::async_write(stream, both, kAwait);
  co_return failed;
}

class PlainConnection final : public Connection {
 public:
  explicit PlainConnection(tcp::socket socket) : Connection(std::move(socket)) {}

  asio::awaitable<error_code> handshake() override { co_return error_code(); }
  asio::awaitable<Transferred> read_some(asio::mutable_buffer into) override {
    return read_from(tcp_, into);
  }
  asio::awaitable<error_code> write(std::string_view head, std::string_view body) override {
    return write_to(tcp_, head, body);
  }
  asio::awaitable<error_code> end_writing() override {
    error_code failed;
    tcp_.socket().shutdown(tcp::socket::shutdown_send, failed);
    co_return failed;
  }
};

class TlsConnection final : public Connection {
 public:
  TlsConnection(tcp::socket socket, std::shared_ptr<ssl::context> context)
      : Connection(std::move(socket)), context_(std::move(context)), tls_(tcp_, *context_) {}

  asio::awaitable<error_code> handshake() override {
    const auto [failed] = co_await tls_.async_handshake(ssl::stream_base::server, kAwait);
    co_return failed;
  }
  asio::awaitable<Transferred> read_some(asio::mutable_buffer into) override {
    return read_from(tls_, into);
  }
  asio::awaitable<error_code> write(std::string_view head, std::string_view body) override {
    return write_to(tls_, head, body);
  }
  asio::awaitable<error_code> end_writing() override {
    const auto [failed] = co_await tls_.async_shutdown(kAwait);
    error_code ignored;
    tcp_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    co_return failed;
  }

 private:
  std::shared_ptr<ssl::context> context_;
  ssl::stream<beast::tcp_stream&> tls_;
};

}  // namespace

std::unique_ptr<Connection> Connection::over(tcp::socket socket,
                                             std::shared_ptr<ssl::context> context) {
  if (!context) return std::make_unique<PlainConnection>(std::move(socket));
  return std::make_unique<TlsConnection>(std::move(socket), std::move(context));
}

asio::awaitable<Transferred> Connection::read_raw(asio::mutable_buffer into) {
  return read_from(tcp_, into);
}

bool Connection::has_unread() const {
  error_code failed;
  return tcp_.socket().available(failed) > 0;
}

}  // namespace mgpu::http
