#include "common/http/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional/optional.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/http/answer.h"
#include "common/http/head.h"
#include "common/http/http2_session.h"
#include "common/http/limits.h"
#include "common/http/request_fields.h"

// A false positive of GCC 12 in inlined coroutines.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace mgpu::http {

namespace {

using bhttp_error = beast::http::error;

constexpr unsigned kHttp10 = 10;  // Beast's number of HTTP/1.0

// Like Beast's string_body, but allocates memory for received bytes and not for the Content-Length.
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

}  // namespace

struct Session::Exchange {
  explicit Exchange(const ServerOptions& options) {
    parser.header_limit(static_cast<std::uint32_t>(options.header_bytes_max));
    parser.body_limit(options.body_bytes_max);
  }
  // After the head, once.
  void read_head() {
    const auto& message = parser.get();
    fields.request.method = message.method_string();
    fields.set_target(message.target());
    fields.source.needs_host = message.version() != kHttp10;
    for (const auto& field : message) {
      std::string name(field.name_string());
      std::ranges::transform(name, name.begin(), to_lower);
      fields.add(name, field.value());
    }
  }
  // After the body, once.
  Request request() {
    fields.request.body = std::move(parser.get().body());
    return std::move(fields.request);
  }
  // A client of HTTP/1.0 does not read it (RFC 9110, 10.1.1).
  bool expects_continue() const {
    return fields.expects_continue && parser.get().version() != kHttp10;
  }

  beast::http::request_parser<GrowingBody> parser;
  RequestFields fields;
};

ConnectionRecord::ConnectionRecord(std::string address) {
  const MutexLock lock(mutex_);
  state_.address = std::move(address);
  state_.waiting_since = std::chrono::steady_clock::now();
}

void ConnectionRecord::wait() {
  const MutexLock lock(mutex_);
  state_.waiting = true;
  state_.served = true;
  state_.waiting_since = std::chrono::steady_clock::now();
}

void ConnectionRecord::work() {
  const MutexLock lock(mutex_);
  state_.waiting = false;
}

void ConnectionRecord::trust() {
  const MutexLock lock(mutex_);
  state_.trusted = true;
}

void ConnectionRecord::set_closing(bool closing) {
  const MutexLock lock(mutex_);
  state_.closing = closing;
}

OpenConnection ConnectionRecord::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

Session::Session(tcp::socket socket, std::string address, std::shared_ptr<ssl::context> context,
                 SessionSetup& setup)
    : connection_(std::move(socket), std::move(context)),
      setup_(setup),
      record_(std::move(address)),
      has_response_(connection_.executor(), asio::steady_timer::time_point::max()) {}

Session::~Session() = default;

asio::awaitable<void> Session::run() {
  const auto self = shared_from_this();
  bool open = co_await handshake();
  if (open && connection_.protocol() == "h2") {
    http2_ = std::make_unique<Http2Session>(*this);
    co_return co_await http2_->run();
  }
  while (open) {
    const bool requested = co_await wait_for_request();
    if (!requested) break;
    Exchange exchange(setup_.options);
    open = co_await receive(exchange);
    if (open) {
      record_.work();
      open = co_await answer(exchange);
      record_.wait();
    }
    if (!open) co_await discard_rest();
  }
  connection_.close();
}

asio::awaitable<bool> Session::handshake() {
  connection_.set_deadline(
      std::min<std::chrono::milliseconds>(kTlsHandshakeTimeout, setup_.options.transfer_timeout));
  const error_code failed = co_await connection_.handshake();
  if (failed) {
    setup_.refused("tls_handshake");
    co_await discard_rest();
    co_return false;
  }
  // A resumed session is checked as well: it has the certificate of its first handshake.
  const TlsOptions& tls = setup_.options.tls;
  certificate_ = connection_.client_certificate();
  if (!certificate_ && tls.client_ca_file.empty() && tls.client_names.empty()) co_return true;
  allowed_ = certificate_ && has_allowed_name(*certificate_, tls.client_names);
  if (allowed_) {
    record_.trust();
  } else {
    setup_.refused("client_name");
  }
  co_return true;
}

// A request that was sent before the certificate expired may arrive later.
std::optional<Response> Session::refusal_of(const RequestSource& source) const {
  if (!allowed_) {
    return error_response(403, "the client certificate has no name that is allowed here");
  }
  if (certificate_ && certificate_->expires < std::chrono::system_clock::now()) {
    setup_.refused("client_expired");
    return error_response(403, "the client certificate has expired");
  }
  if (!setup_.loopback) return std::nullopt;
  auto refusal = http::refusal_of(source, setup_.options.host_names);
  if (!refusal) return std::nullopt;
  setup_.refused(refusal->why);
  return std::move(refusal->response);
}

bool Session::is_too_old() const {
  return std::chrono::steady_clock::now() - begin_ >= setup_.options.connection_age_max;
}

std::chrono::milliseconds Session::idle_timeout() const {
  return allowed_ ? setup_.options.idle_timeout : setup_.options.transfer_timeout;
}

std::chrono::milliseconds SessionSetup::grace_timeout() const {
  return std::min<std::chrono::milliseconds>(kHttpGraceTimeout, options.transfer_timeout);
}

void Session::close_for_another() {
  if (!record_.state().waiting) return record_.set_closing(false);
  setup_.refused("closed_for_another");
  connection_.close();
}

void Session::end_wait() {
  asio::post(connection_.executor(), [self = shared_from_this()] { self->has_response_.cancel(); });
}

// A request that has arrived but has not been read is still handled. A body in parts ends.
void Session::drain() {
  if (http2_) return http2_->drain();
  has_response_.cancel();
  if (idle_ && !connection_.has_unread()) connection_.close();
}

asio::awaitable<bool> Session::wait_for_request() {
  if (received_.size() > 0) co_return true;
  if (setup_.draining) co_return false;
  idle_ = true;
  connection_.set_deadline(idle_timeout());
  const auto read = co_await connection_.read_some(received_.prepare(kHttpIdleReadBytes));
  idle_ = false;
  received_.commit(read.bytes);
  co_return !read.failed;
}

asio::awaitable<bool> Session::receive(Exchange& exchange) {
  connection_.set_deadline(setup_.options.transfer_timeout);
  const bool head = co_await receive_until(exchange, false);
  if (!head) co_return false;
  exchange.read_head();
  // Before the body is read.
  if (auto refusal = refusal_of(exchange.fields.source)) {
    const bool with_body = sends_body(exchange.fields.request.method, refusal->status);
    co_await send(std::move(*refusal), false, with_body);
    co_return false;
  }
  if (exchange.parser.is_done()) co_return true;
  if (exchange.expects_continue()) {
    const error_code failed = co_await connection_.write("HTTP/1.1 100 Continue\r\n\r\n", "");
    if (failed) co_return false;
  }
  co_return co_await receive_until(exchange, true);
}

asio::awaitable<bool> Session::receive_until(Exchange& exchange, bool whole) {
  auto& parser = exchange.parser;
  while (!(whole ? parser.is_done() : parser.is_header_done())) {
    error_code failed = bhttp_error::need_more;
    if (received_.size() > 0) received_.consume(parser.put(received_.data(), failed));
    const bool incomplete = failed == bhttp_error::need_more;
    if (incomplete && received_.size() <= setup_.options.header_bytes_max + kHttpReadBytes) {
      const auto read = co_await connection_.read_some(received_.prepare(kHttpReadBytes));
      received_.commit(read.bytes);
      if (read.failed == beast::error::timeout) setup_.refused("slow_client");
      if (read.failed) co_return false;
    } else if (failed) {
      // Only a chunk extension can become longer without being parsed.
      if (incomplete) failed = bhttp_error::header_limit;
      co_return co_await refuse(failed);
    }
  }
  co_return true;
}

asio::awaitable<bool> Session::refuse(error_code failed) {
  const ServerOptions& options = setup_.options;
  const char* why = "malformed";
  Response response = error_response(400, "the request is not HTTP/1.1: " + failed.message());
  if (failed == bhttp_error::body_limit) {
    why = "body_too_large";
    response = body_too_large(options.body_bytes_max);
  } else if (failed == bhttp_error::header_limit) {
    why = "header_too_large";
    response = header_too_large(options.header_bytes_max);
  }
  setup_.refused(why);
  co_await send(std::move(response), false, true);
  co_return false;
}

asio::awaitable<bool> Session::answer(Exchange& exchange) {
  const std::string method = exchange.fields.request.method;
  const Closing<Response> closing;
  setup_.handler(exchange.request(), give_into(closing.answer, request_dropped()));
  // Not called after `closing` is destroyed, so this session still exists.
  const auto notify = [this] { end_wait(); };
  auto response = closing.answer->take_or(notify);
  while (!response) {
    co_await has_response_.async_wait(asio::as_tuple(asio::use_awaitable));
    response = closing.answer->take_or(notify);
  }
  const bool with_body = sends_body(method, response->status);
  if (response->next_part) {
    const bool chunked = exchange.parser.get().version() != kHttp10;
    co_return co_await send_parts(std::move(*response), chunked, with_body);
  }
  const bool keep_alive =
      exchange.parser.keep_alive() && !response->last && !setup_.draining && !is_too_old();
  co_return co_await send(std::move(*response), keep_alive, with_body);
}

asio::awaitable<bool> Session::send(Response response, bool keep_alive, bool with_body) {
  const std::string head =
      head_of(response, fmt::format("Content-Length: {}\r\n", response.body.size()), keep_alive);
  const std::string_view body = with_body ? std::string_view(response.body) : std::string_view();
  connection_.set_deadline(setup_.options.transfer_timeout);
  const error_code failed = co_await connection_.write(head, body);
  if (failed == beast::error::timeout) setup_.refused("slow_client");
  co_return !failed && keep_alive;
}

asio::awaitable<void> Session::discard_rest() {
  connection_.set_deadline(setup_.grace_timeout());
  co_await connection_.end_writing();
  std::array<char, 4096> dropped;
  bool open = true;
  while (open) {
    const auto read = co_await connection_.read_raw(asio::buffer(dropped));
    open = !read.failed;
  }
}

}  // namespace mgpu::http
