#include "common/http/http2_session.h"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "common/base/check.h"
#include "common/http/limits.h"

// A false positive of GCC 12 in inlined coroutines.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace mgpu::http {

// Closes the answers before the coroutine of the connection is destroyed, and with it the executor
// that they post to.
struct Http2Session::Ending {
  Http2Session& session;
  ~Ending() { session.open_.clear(); }
};

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
                has_refused_ = has_refused_ || refusal;
                return refusal;
              },
          .on_request = [this](Http2StreamId stream,
                               Request request) { handle(stream, std::move(request)); },
          .on_closed = [this](Http2StreamId stream) { open_.erase(stream); },
          .on_refused =
              [this](const char* why) {
                setup_.refused(why);
                has_refused_ = has_refused_ || !session_.is_allowed();
              }};
}

asio::awaitable<void> Http2Session::run() {
  const Ending ending{*this};
  try {
    connection_.clear_deadline();  // watch() has it
    begin_writing_and_watching();
    if (setup_.draining) drain();
    co_await read_all();
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Http2Session::begin_writing_and_watching() {
  for (const auto part : {&Http2Session::write_all, &Http2Session::watch}) {
    asio::co_spawn(
        connection_.executor(),
        [owner = session_.shared_from_this(), this, part]() -> asio::awaitable<void> {
          co_await (this->*part)();
        },
        [owner = session_.shared_from_this(), this](std::exception_ptr failed) {
          if (failed) end();
        });
  }
}

asio::awaitable<void> Http2Session::read_all() {
  std::array<char, kHttp2ReadBytes> bytes;
  bool open = true;
  while (open && !ended_) {
    const auto read = co_await connection_.read_some(asio::buffer(bytes));
    open = !read.failed && !ended_ && take_input({bytes.data(), read.bytes});
  }
}

asio::awaitable<void> Http2Session::write_all() {
  while (!ended_) {
    const std::string bytes = next_output();
    if (!bytes.empty()) {
      writing_since_ = Clock::now();
      const error_code failed = co_await connection_.write(bytes, "");
      writing_since_.reset();
      if (failed) end();
    } else if (!ended_) {
      co_await changed_.async_wait(kAwait);
    }
  }
}

asio::awaitable<void> Http2Session::watch() {
  constexpr std::chrono::milliseconds kPeriodMin{1};
  const ServerOptions& options = setup_.options;
  const auto shortest = std::min({session_.idle_timeout(), options.transfer_timeout,
                                  options.connection_age_max, setup_.grace_timeout()});
  while (!ended_) {
    tick_.expires_after(std::max(kPeriodMin, shortest / 4));
    co_await tick_.async_wait(kAwait);
    if (!ended_) check_times(Clock::now());
  }
}

bool Http2Session::take_input(std::string_view bytes) {
  frames_.set_now(Clock::now());
  if (!frames_.receive(bytes)) return false;
  if (has_refused_ || frames_.is_shutting_down()) drain();
  note_use();
  resume_writing();
  return true;
}

void Http2Session::handle(Http2StreamId stream, Request request) {
  MGPU_DEBUG_CHECK(!open_.contains(stream), "a stream has one request");
  const Open& open = open_[stream];
  note_use();  // before the handler can respond
  asio::post(setup_.handlers,
             [&setup = setup_, request = std::move(request),
              respond = give_into(open.response.answer, request_dropped())]() mutable {
               setup.handler(std::move(request), std::move(respond));
             });
}

std::string Http2Session::next_output() {
  collect();
  if (frames_.unsent_bytes() > kHttp2UnsentBytesMax) {
    end_because("too_many_unsent_bytes");
    return {};
  }
  std::string bytes = frames_.output();
  note_use();
  if (bytes.empty() && frames_.is_done() && !std::exchange(done_, true)) {
    closing_ = true;
    idle_since_ = Clock::now();
    connection_.shut_down_writing();
  }
  return bytes;
}

void Http2Session::collect() {
  frames_.set_now(Clock::now());
  for (auto& [stream, open] : open_) {
    if (!open.responded) collect_response(stream, open);
    if (open.responded) collect_part(stream, open);
  }
}

void Http2Session::collect_response(Http2StreamId stream, Open& open) {
  auto response = open.response.answer->take_or([this] { post_resume_writing(); });
  if (!response) return;
  open.responded = true;
  frames_.respond(stream, *response);
  if (response->last) drain();
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
  auto part = open.part->answer->take_or([this] { post_resume_writing(); });
  if (!part) return;
  open.part.reset();
  frames_.add_part(stream, std::move(*part));
}

void Http2Session::check_times(Clock::time_point now) {
  if (is_slow(now)) return end_because("slow_client");
  if (session_.is_too_old()) drain();
  if ((has_streams_ && !frames_.is_done()) || writing_since_) return;
  const auto timeout = closing_ ? setup_.grace_timeout() : session_.idle_timeout();
  if (now - idle_since_ < timeout) return;
  return closing_ ? end() : drain();
}

bool Http2Session::is_slow(Clock::time_point now) const {
  const auto transfer = frames_.transfer_since();
  return std::ranges::any_of(std::array{transfer, writing_since_}, [&](const auto& since) {
    return since && now - *since >= setup_.options.transfer_timeout;
  });
}

void Http2Session::note_use() {
  const bool has_requests = !open_.empty();
  if (std::exchange(has_requests_, has_requests) != has_requests) {
    has_requests ? session_.record().work() : session_.record().wait();
  }
  const bool has_streams = frames_.has_streams();
  if (std::exchange(has_streams_, has_streams) && !has_streams) idle_since_ = Clock::now();
}

void Http2Session::drain() {
  if (closing_ || ended_) return;
  closing_ = true;
  idle_since_ = Clock::now();
  frames_.shut_down();
  resume_writing();
}

void Http2Session::end() {
  ended_ = true;
  open_.clear();
  connection_.close();
  changed_.cancel();
  tick_.cancel();
}

void Http2Session::end_because(const char* why) {
  setup_.refused(why);
  end();
}

void Http2Session::post_resume_writing() {
  const auto owner = session_.weak_from_this().lock();
  if (owner) asio::post(connection_.executor(), [owner, this] { resume_writing(); });
}

}  // namespace mgpu::http
