#include "test/support/api_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <utility>

namespace mgpu::test {
namespace {

constexpr std::chrono::seconds kPatience{30};

}  // namespace

kube::Response call_and_wait(kube::Transport& transport, kube::Request request) {
  auto answer = std::make_shared<std::promise<kube::Response>>();
  auto future = answer->get_future();
  transport.send(std::move(request),
                 [answer](kube::Response response) { answer->set_value(std::move(response)); });
  if (future.wait_for(kPatience) == std::future_status::ready) return future.get();
  ADD_FAILURE() << "no answer";
  return {};
}

struct WatchLog::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<kube::Encoding> opened;
  std::deque<std::string> lines;
  std::optional<kube::Response> end;
  std::unique_ptr<kube::Stream> stream;

  template <class Change>
  void change(Change change_it) {
    const std::lock_guard lock(mutex);
    change_it();
    changed.notify_all();
  }
  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    const bool held = changed.wait_for(lock, kPatience, condition);
    if (!held) ADD_FAILURE() << "the watch is silent";
    return held;
  }
};

WatchLog::WatchLog(kube::Transport& transport, kube::Request request)
    : transport_(transport), state_(std::make_shared<State>()) {
  State* const state = state_.get();  // outlives the stream
  state->stream = transport.stream(
      std::move(request),
      {.on_open =
           [state](kube::Encoding encoding) { state->change([&] { state->opened = encoding; }); },
       .on_line =
           [state](std::string_view line) {
             state->change([&] { state->lines.emplace_back(line); });
           },
       .on_end =
           [state](kube::Response response) {
             state->change([&] { state->end = std::move(response); });
           }});
}

WatchLog::~WatchLog() {
  auto closed = std::make_shared<std::promise<void>>();
  auto future = closed->get_future();
  transport_.executor().post([state = state_, closed] {
    state->stream.reset();
    closed->set_value();
  });
  future.wait();
}

std::optional<std::string> WatchLog::next() {
  std::unique_lock lock(state_->mutex);
  const bool changed =
      state_->wait(lock, [&] { return !state_->lines.empty() || state_->end.has_value(); });
  if (!changed || state_->lines.empty()) return std::nullopt;
  std::string line = std::move(state_->lines.front());
  state_->lines.pop_front();
  return line;
}

kube::Response WatchLog::end() {
  std::unique_lock lock(state_->mutex);
  if (!state_->wait(lock, [&] { return state_->end.has_value(); })) return {};
  return *state_->end;
}

bool WatchLog::opened() {
  std::unique_lock lock(state_->mutex);
  return state_->wait(lock, [&] { return state_->opened || state_->end; }) && state_->opened;
}

kube::Encoding WatchLog::encoding() const {
  const std::lock_guard lock(state_->mutex);
  return state_->opened.value();
}

}  // namespace mgpu::test
