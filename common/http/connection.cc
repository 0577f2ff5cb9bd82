#include "common/http/connection.h"

#include <array>
#include <boost/asio/write.hpp>
#include <utility>

namespace mgpu::http {

namespace {

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

}  // namespace

Connection::Connection(tcp::socket socket, std::shared_ptr<ssl::context> context)
    : tcp_(std::move(socket)), context_(std::move(context)) {
  if (context_) tls_.emplace(tcp_, *context_);
}

asio::awaitable<error_code> Connection::handshake() {
  if (!tls_) co_return error_code();
  const auto [failed] = co_await tls_->async_handshake(ssl::stream_base::server, kAwait);
  co_return failed;
}

std::optional<ClientCertificate> Connection::client_certificate() {
  return tls_ ? client_certificate_of(tls_->native_handle()) : std::nullopt;
}

std::string_view Connection::protocol() {
  if (!tls_) return {};
  const unsigned char* name = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(tls_->native_handle(), &name, &length);
  return {reinterpret_cast<const char*>(name), length};
}

asio::awaitable<Transferred> Connection::read_some(asio::mutable_buffer into) {
  return tls_ ? read_from(*tls_, into) : read_from(tcp_, into);
}

asio::awaitable<error_code> Connection::write(std::string_view head, std::string_view body) {
  return tls_ ? write_to(*tls_, head, body) : write_to(tcp_, head, body);
}

asio::awaitable<void> Connection::end_writing() {
  // Without TLS's own end the client could not tell a complete answer from one that was cut off.
  if (tls_) co_await tls_->async_shutdown(kAwait);
  shut_down_writing();
}

void Connection::shut_down_writing() {
  error_code ignored;
  tcp_.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

asio::awaitable<Transferred> Connection::read_raw(asio::mutable_buffer into) {
  return read_from(tcp_, into);
}

asio::awaitable<void> Connection::wait_for_client() {
  co_await tcp_.socket().async_wait(tcp::socket::wait_read, kAwait);
}

bool Connection::has_unread() const {
  error_code failed;
  return tcp_.socket().available(failed) > 0;
}

}  // namespace mgpu::http
