#include "common/http/http2_session.h"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/http/limits.h"

// A false positive of GCC 12 in inlined coroutines.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace mgpu::http {

Http2Session::Http2Session(Session& session)
    : session_(session),
      connection_(session.connection()),
      setup_(session.setup()),
      frames_({.header_bytes = setup_.options.header_bytes_max,
               .body_bytes = setup_.options.body_bytes_max},
              events()),
      changed_(connection_.executor(), asio::steady_timer::time_point::max()),
      tick_(connection_.executor()) {}

Http2Events Http2Session::events() {
  return {.on_headers =
              [this](const RequestSource& source) {
                auto refusal = session_.refusal_of(source);
                refused_ = refused_ || refusal;
                return refusal;
              },
          .on_request = [this](Http2StreamId stream,
                               Request request) { handle(stream, std::move(request)); },
          .on_closed = [this](Http2StreamId stream) { open_.erase(stream); },
          .on_refused = [this](const char* why) { setup_.refused(why); }};
}

asio::awaitable<void> Http2Session::run() {
  const auto spawn = [this](asio::awaitable<void> (Http2Session::*part)()) {
    asio::co_spawn(
        connection_.executor(),
        [owner = session_.shared_from_this(), this, part]() -> asio::awaitable<void> {
          co_await (this->*part)();
        },
        asio::detached);
  };
  spawn(&Http2Session::write_all);
  spawn(&Http2Session::watch);
  if (setup_.draining) drain();
  connection_.clear_deadline();
  std::array<char, kHttp2ReadBytes> bytes;
  while (!ended_) {
    const auto read = co_await connection_.read_some(asio::buffer(bytes));
    if (read.failed || ended_) break;
    frames_.set_now(Clock::now());
    if (!frames_.receive({bytes.data(), read.bytes})) break;
    if (refused_) drain();
    note_use();
    look_again();
  }
  end();
}

void Http2Session::handle(Http2StreamId stream, Request request) {
  const Open& open = open_[stream];
  setup_.handler(std::move(request),
                 give_into(open.response.answer, error_response(500, "the request was dropped")));
}

asio::awaitable<void> Http2Session::write_all() {
  while (!ended_) {
    collect();
    const std::string bytes = frames_.output();
    note_use();
    if (bytes.empty() && frames_.is_done()) {
      begin_to_close();
      connection_.shut_down_writing();
    }
    if (bytes.empty()) {
      co_await changed_.async_wait(kAwait);
    } else {
      writing_since_ = Clock::now();
      const error_code failed = co_await connection_.write(bytes, "");
      writing_since_.reset();
      if (failed) end();
    }
  }
}

void Http2Session::collect() {
  frames_.set_now(Clock::now());
  for (auto& [stream, open] : open_) {
    if (!open.responded) collect_response(stream, open);
    if (open.responded) collect_part(stream, open);
  }
  if (frames_.unsent_bytes() <= kHttp2UnsentBytesMax) return;
  setup_.refused("slow_client");
  end();
}

void Http2Session::collect_response(Http2StreamId stream, Open& open) {
  auto response = open.response.answer->take_or([this] { wake(); });
  if (!response) return;
  open.responded = true;
  frames_.respond(stream, *response);
  open.next_part = std::move(response->next_part);
}

// A body in parts ends early where the connection has to.
void Http2Session::collect_part(Http2StreamId stream, Open& open) {
  if (!open.next_part || !frames_.wants_part(stream)) return;
  if (closing_) return frames_.add_part(stream, "");
  if (!open.part) {
    open.part = std::make_unique<Closing<std::string>>();
    open.next_part(give_into(open.part->answer, std::string()));
  }
  auto part = open.part->answer->take_or([this] { wake(); });
  if (!part) return;
  open.part.reset();
  frames_.add_part(stream, std::move(*part));
}

asio::awaitable<void> Http2Session::watch() {
  constexpr std::chrono::milliseconds kPeriodMin{1};
  const ServerOptions& options = setup_.options;
  const auto period = std::max(
      kPeriodMin,
      std::min({options.idle_timeout, options.transfer_timeout, options.connection_age_max}) / 4);
  while (!ended_) {
    tick_.expires_after(period);
    co_await tick_.async_wait(kAwait);
    if (ended_) co_return;
    if (is_over_time(Clock::now())) end();
    if (session_.is_too_old()) drain();
  }
}

bool Http2Session::is_over_time(Clock::time_point now) {
  for (const auto& since : {frames_.transfer_since(), writing_since_}) {
    if (!since || now - *since < setup_.options.transfer_timeout) continue;
    setup_.refused("slow_client");
    return true;
  }
  if (in_use_ && !frames_.is_done()) return false;
  // The client has this long to end a connection that it has been told to end.
  const auto patience =
      closing_ ? std::chrono::milliseconds(kHttpLingerTimeout) : session_.idle_timeout();
  if (now - idle_since_ < patience) return false;
  if (closing_) return true;
  drain();
  return false;
}

void Http2Session::drain() {
  if (closing_ || ended_) return;
  begin_to_close();
  frames_.shut_down();
  look_again();
}

void Http2Session::begin_to_close() {
  if (std::exchange(closing_, true)) return;
  idle_since_ = Clock::now();
}

void Http2Session::note_use() {
  const bool in_use = frames_.has_streams();
  if (std::exchange(in_use_, in_use) == in_use) return;
  if (in_use) return session_.record().work();
  session_.record().wait();
  idle_since_ = Clock::now();
}

void Http2Session::end() {
  ended_ = true;
  open_.clear();
  connection_.close();
  changed_.cancel();
  tick_.cancel();
}

void Http2Session::wake() {
  const auto owner = session_.weak_from_this().lock();
  if (owner) asio::post(connection_.executor(), [owner, this] { look_again(); });
}

}  // namespace mgpu::http
