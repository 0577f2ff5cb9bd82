#include "bench/latency/client.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace mgpu::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

// Size of one read. Large reads keep the client's own work small.
constexpr std::size_t kReadBytes = 64 * 1024;

std::string head_of(std::string_view path, std::size_t length) {
  std::string head = "POST ";
  head.append(path).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n");
  head += "Content-Length: " + std::to_string(length);
  return head + "\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n";
}

}  // namespace

struct Client::State {
  asio::io_context context;
  tcp::socket socket{context};
  beast::flat_buffer received;
};

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Result<Client> Client::connect(std::uint16_t port) {
  auto state = std::make_unique<State>();
  state->received.reserve(kReadBytes);
  boost::system::error_code failed;
  state->socket.connect({asio::ip::address_v4::loopback(), port}, failed);
  if (!failed) state->socket.set_option(tcp::no_delay(true), failed);
  if (failed)
    return error("cannot connect to port " + std::to_string(port) + ": " + failed.message());
  return Client(std::move(state));
}

Result<std::string> Client::post(std::string_view path, std::string_view body) {
  const std::string head = head_of(path, body.size());
  const std::array<asio::const_buffer, 2> both = {asio::buffer(head), asio::buffer(body)};
  boost::system::error_code failed;
  asio::write(state_->socket, both, failed);
  if (failed) return error("cannot send: " + failed.message());
  beast::http::response_parser<beast::http::string_body> answer;
  answer.body_limit(boost::none);
  beast::http::read(state_->socket, state_->received, answer, failed);
  if (failed) return error("cannot read the response: " + failed.message());
  if (answer.get().result_int() != 200)
    return error("HTTP " + std::to_string(answer.get().result_int()) + ": " + answer.get().body());
  return std::move(answer.get().body());
}

}  // namespace mgpu::bench
