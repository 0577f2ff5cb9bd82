// A response whose body is sent in parts.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <optional>
#include <utility>

#include "common/http/answer.h"
#include "common/http/head.h"
#include "common/http/session.h"

// A false positive of GCC 12 in inlined coroutines.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace mgpu::http {

asio::awaitable<bool> Session::send_parts(Response response, bool chunked, bool with_body) {
  const NextPart next = std::exchange(response.next_part, nullptr);
  // In HTTP/1.0 the end of the connection is the end of the body.
  const std::string head =
      head_of(response, chunked ? "Transfer-Encoding: chunked\r\n" : "", false);
  connection_.set_deadline(setup_.options.transfer_timeout);
  error_code failed = co_await connection_.write(head, "");
  if (failed || !with_body) co_return false;
  has_response_.expires_at(begin_ + setup_.options.connection_age_max);
  asio::co_spawn(
      connection_.executor(),
      [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->watch_client(); },
      asio::detached);
  bool more = true;
  while (more && !failed) {
    std::string part = co_await next_part(next);
    more = !part.empty();
    if (more || chunked) failed = co_await send_part(std::move(part), chunked);
  }
  if (failed == beast::error::timeout) setup_.refused("slow_client");
  // Its own end of the connection ends the wait for the client, too.
  if (failed || client_gone_) connection_.close();
  co_return false;
}

// The last part is empty.
asio::awaitable<error_code> Session::send_part(std::string part, bool chunked) {
  const std::string head = chunked ? fmt::format("{:x}\r\n", part.size()) : "";
  if (chunked) part += "\r\n";
  connection_.set_deadline(setup_.options.transfer_timeout);
  co_return co_await connection_.write(head, part);
}

// Empty at the end of the body.
asio::awaitable<std::string> Session::next_part(const NextPart& next) {
  const auto ends = [this] { return client_gone_ || setup_.draining || is_too_old(); };
  if (ends()) co_return "";
  const Closing<std::string> closing;
  next(give_into(closing.answer, std::string()));
  // Not called after `closing` is destroyed, so this session still exists.
  const auto notify = [this] { end_wait(); };
  auto part = closing.answer->take_or(notify);
  while (!part && !ends()) {
    co_await has_response_.async_wait(kAwait);
    part = closing.answer->take_or(notify);
  }
  co_return part.value_or("");
}

// A client has nothing to send while it gets a response: it has gone, or is not one that this
// server supports.
asio::awaitable<void> Session::watch_client() {
  co_await connection_.wait_for_client();
  client_gone_ = true;
  has_response_.cancel();
}

}  // namespace mgpu::http
