#include "common/kube/reflector.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "common/kube/limits.h"
#include "common/kube/object_json.h"

namespace mgpu::kube {

// Callbacks hold the state weakly, so that none runs once the reflector is gone, and carry the
// turn they were made in: what an abandoned request or stream still says is ignored.
struct Reflector::State : std::enable_shared_from_this<State> {
  State(std::string its_name, Resource resource, Transport& its_transport, OnEvent its_on_event,
        ReflectorHandlers its)
      : name(std::move(its_name)),
        transport(its_transport),
        handlers(std::move(its)),
        on_event(std::move(its_on_event)),
        watcher(std::move(resource)),
        heard_at(executor().now()) {}

  Executor& executor() const { return transport.executor(); }
  Instant now() const { return executor().now(); }
  void hear() { heard_at.store(now()); }

  // `call` as a task that does nothing when it comes too late.
  template <class... Args, class Call>
  auto in_this_turn(Call call) {
    return [weak = weak_from_this(), at = turn, call](const Args&... args) {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard lock(self->running);
      if (!self->closed && self->turn == at) call(*self, args...);
    };
  }

  void tell(const std::function<void(const std::string&)>& handler,
            const std::string& sentence) const;
  void take(WatchStep step);
  bool deliver(const WatchStep& step);
  void act(WatchAction action);
  void next_turn();
  void send(Request request);
  void open(Request request);
  void check_silence();
  void close();

  const std::string name;
  Transport& transport;
  const ReflectorHandlers handlers;
  const OnEvent on_event;

  // Held while anything below is used or a handler runs. Recursive, since a handler may destroy
  // the reflector.
  std::recursive_mutex running;
  Watcher watcher;
  std::unique_ptr<Stream> stream;
  Executor::TimerId timer = 0;
  std::uint64_t turn = 0;
  Instant watch_heard_at{};
  bool closed = false;

  std::atomic<bool> synced = false;
  std::atomic<Instant> heard_at;
};

void Reflector::State::take(WatchStep step) {
  if (deliver(step) && step.action.kind != WatchAction::Kind::kNone) act(std::move(step.action));
}

void Reflector::State::tell(const std::function<void(const std::string&)>& handler,
                            const std::string& sentence) const {
  if (!closed && !sentence.empty() && handler) handler(name + ": " + sentence);
}

// False: a handler has closed the reflector.
bool Reflector::State::deliver(const WatchStep& step) {
  for (const WatchEvent& event : step.events) {
    const Taken taken = on_event(event);
    tell(handlers.on_unreadable, taken.unreadable);
    if (taken.called && !closed && handlers.on_change) handlers.on_change();
    if (closed) return false;
  }
  synced.store(watcher.synced());
  tell(handlers.on_problem, step.problem);
  tell(handlers.on_unreadable, step.unreadable);
  return !closed;
}

void Reflector::State::act(WatchAction action) {
  next_turn();
  switch (action.kind) {
    case WatchAction::Kind::kNone:
      break;
    case WatchAction::Kind::kList:
      send(std::move(action.request));
      break;
    case WatchAction::Kind::kWatch:
      open(std::move(action.request));
      break;
    case WatchAction::Kind::kWait:
      timer = executor().after(
          action.delay, in_this_turn([](State& self) {
            self.take(self.watcher.on_waited(self.now(), self.executor().random()));
          }));
      break;
  }
}

// A stream is not destroyed here: this may be running inside one of its handlers.
void Reflector::State::next_turn() {
  ++turn;
  executor().cancel(timer);
  if (stream) executor().post([old = std::shared_ptr<Stream>(std::move(stream))] {});
}

void Reflector::State::send(Request request) {
  transport.send(std::move(request),
                 in_this_turn<Response>([](State& self, const Response& answer) {
                   if (answer.ok()) self.hear();
                   self.take(self.watcher.on_list(answer, self.now(), self.executor().random()));
                 }));
}

void Reflector::State::open(Request request) {
  const auto heard = [](State& self) {
    self.hear();
    self.watch_heard_at = self.now();
  };
  StreamHandlers stream_handlers;
  stream_handlers.on_open = in_this_turn(heard);
  stream_handlers.on_line =
      in_this_turn<std::string_view>([heard](State& self, std::string_view line) {
        heard(self);
        self.take(self.watcher.on_line(line, self.now(), self.executor().random()));
      });
  stream_handlers.on_end = in_this_turn<Response>([](State& self, const Response& answer) {
    if (answer.ok()) self.hear();
    self.take(self.watcher.on_end(answer, self.now(), self.executor().random()));
  });
  watch_heard_at = now();
  stream = transport.stream(std::move(request), std::move(stream_handlers));
  check_silence();
}

// One timer at a time: lines move the deadline, not the timer.
void Reflector::State::check_silence() {
  const Instant deadline = watch_heard_at + kWatchSilenceMax;
  if (now() >= deadline) return take(watcher.on_silence(now(), executor().random()));
  timer =
      executor().after(deadline - now(), in_this_turn([](State& self) { self.check_silence(); }));
}

void Reflector::State::close() {
  const std::lock_guard lock(running);
  closed = true;
  next_turn();
}

Reflector::Reflector(std::string name, Resource resource, Transport& transport, OnEvent on_event,
                     ReflectorHandlers handlers)
    : state_(std::make_shared<State>(std::move(name), std::move(resource), transport,
                                     std::move(on_event), std::move(handlers))) {}

Reflector::~Reflector() {
  state_->close();
}

void Reflector::start() {
  state_->executor().post(state_->in_this_turn(
      [](State& self) { self.take(self.watcher.start(self.now(), self.executor().random())); }));
}

bool Reflector::synced() const {
  return state_->synced.load();
}

Duration Reflector::silent_for() const {
  return state_->now() - state_->heard_at.load();
}

std::string unreadable_object(std::string_view json, const Error& why) {
  const std::string name = name_of_object(json);
  return fmt::format("{} cannot be read: {}", name.empty() ? "an object" : name, why.message);
}

}  // namespace mgpu::kube
