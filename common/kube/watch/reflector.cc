#include "common/kube/watch/reflector.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {

// Callbacks hold the state weakly, so that none runs once the reflector is destroyed. They carry
// the number of the generation in which they were created: what an abandoned request or stream
// still reports is ignored.
struct Reflector::State : std::enable_shared_from_this<State> {
  State(std::string the_name, Resource the_resource, Transport& the_transport, OnEvent the_on_event,
        ReflectorEvents the_events)
      : name(std::move(the_name)),
        transport(the_transport),
        events(std::move(the_events)),
        on_event(std::move(the_on_event)),
        resource(std::move(the_resource)),
        watcher(resource),
        server_seen_at(executor().now()) {}

  Executor& executor() const { return transport.executor(); }
  Instant now() const { return executor().now(); }
  double random() const { return executor().random(); }

  // `call` as a callback that does nothing in a later generation or after the end.
  template <class... Args, class Call>
  auto in_this_generation(Call call) {
    return [weak = weak_from_this(), at = generation, call](const Args&... args) {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard lock(self->running);
      if (!self->closed && self->generation == at) call(*self, args...);
    };
  }

  void report(const std::function<void(const std::string&)>& handler,
              const std::string& sentence) const;
  void take(WatchStep step);
  void next_turn();
  void send(Request request);
  void open(Request request);
  void check_silence();
  void restart();
  void close();

  const std::string name;
  Transport& transport;
  const ReflectorEvents events;
  const OnEvent on_event;
  const Resource resource;

  // Held while anything below is used or a handler runs. Recursive, since a handler may destroy
  // the reflector.
  std::recursive_mutex running;
  Watcher watcher;
  std::unique_ptr<Stream> stream;
  Executor::TimerId timer = 0;
  std::uint64_t generation = 0;
  Instant stream_active_at{};
  bool closed = false;

  std::atomic<bool> synced = false;
  std::atomic<Instant> server_seen_at;
};

void Reflector::State::report(const std::function<void(const std::string&)>& handler,
                              const std::string& sentence) const {
  if (!closed && !sentence.empty() && handler) handler(name + ": " + sentence);
}

// Delivers the events and takes the action, unless a handler closes the reflector.
void Reflector::State::take(WatchStep step) {
  for (const WatchEvent& event : step.events) {
    const Delivered delivered = on_event(event);
    report(events.on_unreadable, delivered.unreadable);
    if (delivered.called && !closed && events.on_change) events.on_change();
    if (closed) return;
  }
  synced.store(watcher.synced());
  report(events.on_problem, step.problem);
  report(events.on_unreadable, step.unreadable);
  if (closed || step.action.kind == WatchAction::Kind::kNone) return;
  next_turn();
  if (step.action.kind == WatchAction::Kind::kList) send(std::move(step.action.request));
  if (step.action.kind == WatchAction::Kind::kWatch) open(std::move(step.action.request));
  if (step.action.kind == WatchAction::Kind::kWait) {
    timer = executor().after(step.action.delay, in_this_generation([](State& self) {
                               self.take(self.watcher.on_waited(self.now(), self.random()));
                             }));
  }
}

// A stream is not destroyed here: this may be running inside one of its handlers.
void Reflector::State::next_turn() {
  ++generation;
  executor().cancel(timer);
  if (stream) executor().post([old = std::shared_ptr<Stream>(std::move(stream))] {});
}

void Reflector::State::send(Request request) {
  transport.send(std::move(request),
                 in_this_generation<Response>([](State& self, const Response& answer) {
                   if (answer.ok()) self.server_seen_at.store(self.now());
                   self.take(self.watcher.on_list(answer, self.now(), self.random()));
                 }));
}

void Reflector::State::open(Request request) {
  const auto mark_active = [](State& self) {
    self.stream_active_at = self.now();
    self.server_seen_at.store(self.now());
  };
  StreamEvents stream_events;
  stream_events.on_open =
      in_this_generation<Encoding>([mark_active](State& self, Encoding encoding) {
        mark_active(self);
        self.watcher.on_open(encoding);
      });
  stream_events.on_line =
      in_this_generation<std::string_view>([mark_active](State& self, std::string_view line) {
        mark_active(self);
        self.take(self.watcher.on_line(line, self.now(), self.random()));
      });
  stream_events.on_end = in_this_generation<Response>([](State& self, const Response& answer) {
    if (answer.ok()) self.server_seen_at.store(self.now());
    self.take(self.watcher.on_end(answer, self.now(), self.random()));
  });
  stream_active_at = now();
  stream = transport.stream(std::move(request), std::move(stream_events));
  check_silence();
}

// There is one timer at a time: lines move the deadline, not the timer.
void Reflector::State::check_silence() {
  const Instant deadline = stream_active_at + kWatchSilenceMax;
  if (now() >= deadline) return take(watcher.on_silence(now(), random()));
  timer = executor().after(deadline - now(),
                           in_this_generation([](State& self) { self.check_silence(); }));
}

void Reflector::State::restart() {
  const std::lock_guard lock(running);
  watcher = Watcher(resource);
  synced.store(false);
  take(watcher.start());
}

void Reflector::State::close() {
  const std::lock_guard lock(running);
  closed = true;
  next_turn();
}

Reflector::Reflector(std::string name, Resource resource, Transport& transport, OnEvent on_event,
                     ReflectorEvents events)
    : state_(std::make_shared<State>(std::move(name), std::move(resource), transport,
                                     std::move(on_event), std::move(events))) {}

Reflector::~Reflector() {
  state_->close();
}

void Reflector::start() {
  state_->executor().post(
      state_->in_this_generation([](State& self) { self.take(self.watcher.start()); }));
}

void Reflector::restart() {
  state_->restart();
}

bool Reflector::synced() const {
  return state_->synced.load();
}

Duration Reflector::silent_for() const {
  return state_->now() - state_->server_seen_at.load();
}

std::string unreadable_object(const WatchEvent& event, const Error& why) {
  const std::string name = event.encoding == Encoding::kProtobuf ? name_in_protobuf(event.object)
                                                                 : name_of_object(event.object);
  return fmt::format("{} cannot be read: {}", name.empty() ? "an object" : name, why.message);
}

}  // namespace mgpu::kube
