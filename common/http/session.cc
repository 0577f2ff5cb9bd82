#include "common/http/session.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/optional/optional.hpp>
#include <utility>

#include "common/http/answer.h"
#include "common/http/limits.h"

// GCC 12 says so of the frames of coroutines that it inlines.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace mgpu::http {

namespace {

using bhttp_error = beast::http::error;

// As Beast's string_body, but memory comes with the bytes and not with the promise of them.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(beast::http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& length, error_code& failed) {
      failed = {};
      if (length) body_.reserve(std::min<std::uint64_t>(*length, kHttpBodyReserveMax));
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& failed) {
      failed = {};
      std::size_t bytes = 0;
      for (const asio::const_buffer part : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(part.data()), part.size());
        bytes += part.size();
      }
      return bytes;
    }
    void finish(error_code& failed) { failed = {}; }

   private:
    value_type& body_;
  };
};

std::string head_of(const Response& response, bool keep_alive) {
  const auto status = beast::http::int_to_status(static_cast<unsigned>(response.status));
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head += std::string_view(beast::http::obsolete_reason(status));
  head += "\r\nContent-Type: " + response.content_type;
  head += "\r\nContent-Length: " + std::to_string(response.body.size());
  for (const auto& [name, value] : response.headers) head += "\r\n" + name + ": " + value;
  head += keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
  return head;
}

// Closes the answer of an exchange that ends early.
struct Closing {
  std::shared_ptr<Answer> answer;
  ~Closing() { answer->close(); }
};

}  // namespace

struct Session::Exchange {
  explicit Exchange(const ServerOptions& options) {
    parser.header_limit(static_cast<std::uint32_t>(options.header_bytes_max));
    parser.body_limit(options.body_bytes_max);
  }

  Request request() {
    auto& message = parser.get();
    const std::string_view target(message.target());
    const std::size_t path_end = std::min(target.find('?'), target.size());
    return {.method = std::string(message.method_string()),
            .path = std::string(target.substr(0, path_end)),
            .query = std::string(target.substr(std::min(path_end + 1, target.size()))),
            .body = std::move(message.body())};
  }
  std::string_view expects() { return parser.get()[beast::http::field::expect]; }
  bool is_head() { return parser.get().method() == beast::http::verb::head; }

  beast::http::request_parser<GrowingBody> parser;
};

Session::Session(std::unique_ptr<Connection> connection, SessionSetup& setup)
    : connection_(std::move(connection)),
      setup_(setup),
      answer_has_come_(connection_->executor(), asio::steady_timer::time_point::max()) {}

asio::awaitable<void> Session::run() {
  const auto self = shared_from_this();
  connection_->deadline(
      std::min<std::chrono::milliseconds>(kTlsHandshakeTimeout, setup_.options.transfer_timeout));
  const error_code failed = co_await connection_->handshake();
  if (failed) {
    setup_.refused("tls_handshake");
    co_await linger();
  }
  bool open = !failed;
  while (open) {
    const bool come = co_await wait_for_request();
    if (!come) break;
    Exchange exchange(setup_.options);
    open = co_await receive(exchange);
    if (open) open = co_await answer(exchange);
    if (!open) co_await linger();
  }
  connection_->close();
}

// A request that has arrived but has not been read yet is still answered.
void Session::drain() {
  if (idle_ && !connection_->has_unread()) connection_->close();
}

asio::awaitable<bool> Session::wait_for_request() {
  if (received_.size() > 0) co_return true;
  if (setup_.draining) co_return false;
  idle_ = true;
  connection_->deadline(setup_.options.idle_timeout);
  const auto read = co_await connection_->read_some(received_.prepare(kHttpIdleReadBytes));
  idle_ = false;
  received_.commit(read.bytes);
  co_return !read.failed;
}

asio::awaitable<bool> Session::receive(Exchange& exchange) {
  connection_->deadline(setup_.options.transfer_timeout);
  const bool head = co_await receive_until(exchange, false);
  if (!head || exchange.parser.is_done()) co_return head;
  if (beast::iequals(exchange.expects(), "100-continue")) {
    const error_code failed = co_await connection_->write("HTTP/1.1 100 Continue\r\n\r\n", "");
    if (failed) co_return false;
  }
  co_return co_await receive_until(exchange, true);
}

asio::awaitable<bool> Session::receive_until(Exchange& exchange, bool whole) {
  auto& parser = exchange.parser;
  while (!(whole ? parser.is_done() : parser.is_header_done())) {
    error_code failed = bhttp_error::need_more;
    if (received_.size() > 0) received_.consume(parser.put(received_.data(), failed));
    if (failed == bhttp_error::need_more) {
      const bool more = co_await read_more();
      if (!more) co_return false;
    } else if (failed) {
      co_return co_await refuse_for(failed);
    }
  }
  co_return true;
}

asio::awaitable<bool> Session::refuse_for(error_code failed) {
  const ServerOptions& options = setup_.options;
  if (failed == bhttp_error::body_limit) {
    return refuse(413, "body_too_large",
                  "the body is over " + std::to_string(options.body_bytes_max) + " bytes");
  }
  if (failed == bhttp_error::header_limit) {
    return refuse(431, "header_too_large",
                  "the header is over " + std::to_string(options.header_bytes_max) + " bytes");
  }
  return refuse(400, "malformed", "the request is not HTTP/1.1: " + failed.message());
}

asio::awaitable<bool> Session::refuse(int status, const char* why, std::string sentence) {
  setup_.refused(why);
  co_await send(error_response(status, sentence), false, true);
  co_return false;
}

asio::awaitable<bool> Session::read_more() {
  // Only a chunk's extension can grow so far without being parsed.
  if (received_.size() > setup_.options.header_bytes_max + kHttpReadBytes) {
    co_return co_await refuse_for(bhttp_error::header_limit);
  }
  const auto read = co_await connection_->read_some(received_.prepare(kHttpReadBytes));
  received_.commit(read.bytes);
  if (read.failed == beast::error::timeout) setup_.refused("slow_client");
  co_return !read.failed;
}

asio::awaitable<bool> Session::answer(Exchange& exchange) {
  const bool with_body = !exchange.is_head();
  const Closing closing{std::make_shared<Answer>()};
  setup_.handler(exchange.request(), Answer::respond_into(closing.answer));
  // Called before `closing` ends, so while this session lives.
  const auto wake = [this] {
    asio::post(connection_->executor(),
               [self = shared_from_this()] { self->answer_has_come_.cancel(); });
  };
  auto response = closing.answer->take_or(wake);
  while (!response) {
    const auto woken = co_await answer_has_come_.async_wait(asio::as_tuple(asio::use_awaitable));
    static_cast<void>(woken);
    response = closing.answer->take_or(wake);
  }
  const bool keep_alive = exchange.parser.keep_alive() && !setup_.draining;
  co_return co_await send(std::move(*response), keep_alive, with_body);
}

asio::awaitable<bool> Session::send(Response response, bool keep_alive, bool with_body) {
  const std::string head = head_of(response, keep_alive);
  const std::string_view body = with_body ? std::string_view(response.body) : std::string_view();
  connection_->deadline(setup_.options.transfer_timeout);
  const error_code failed = co_await connection_->write(head, body);
  if (failed == beast::error::timeout) setup_.refused("slow_client");
  co_return !failed && keep_alive;
}

asio::awaitable<void> Session::linger() {
  connection_->deadline(
      std::min<std::chrono::milliseconds>(kHttpLingerTimeout, setup_.options.transfer_timeout));
  co_await connection_->end_writing();
  std::array<char, 4096> dropped;
  bool open = true;
  while (open) {
    const auto read = co_await connection_->read_raw(asio::buffer(dropped));
    open = !read.failed;
  }
}

}  // namespace mgpu::http
