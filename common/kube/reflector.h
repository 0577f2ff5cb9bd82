// Keeps a consumer equal to a collection at the API server: a Watcher, driven over a Transport. The
// consumer is given objects, not text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"
#include "common/kube/watcher.h"

namespace mgpu::kube {

// Takes a collection of T: an object, or what the consumer needs of one. The first call is
// `relist`.
template <class T>
struct Consumer {
  std::function<Result<T>(std::string_view json)> read;
  std::function<void(T)> apply;   // it is new, or has changed
  std::function<void(T)> remove;  // it was deleted; this is what it was last
  // The whole collection. Objects that are not among these no longer exist, unless `complete` is
  // false: one of them could not be read then, and what is missing may be that one.
  std::function<void(std::vector<T> objects, bool complete)> relist;
};

// What came of an event.
struct Taken {
  bool called = false;     // the consumer was
  std::string unreadable;  // the object that cannot be read, and why: one sentence; mostly empty
};

// Turns a watcher's events into calls of a consumer. A relist is gathered first: until it is
// finished, the consumer sees nothing of it. An object that cannot be read is skipped. One thread
// at a time.
template <class T>
class ObjectEvents {
 public:
  explicit ObjectEvents(Consumer<T> consumer) : consumer_(std::move(consumer)) {}

  Taken on_event(const WatchEvent& event);

 private:
  Consumer<T> consumer_;
  std::vector<T> relisted_;
  bool complete_ = true;
};

// Called on the transport's executor, one at a time, as the consumer is.
struct ReflectorHandlers {
  // One sentence when listing or watching failed (it goes on by itself), for the log.
  std::function<void(const std::string&)> on_problem{};
  // An object that cannot be read, and why: one sentence. It was skipped.
  std::function<void(const std::string&)> on_unreadable{};
  // After each call of the consumer.
  std::function<void()> on_change{};
};

class Reflector {
 public:
  // `transport` outlives the reflector. Sentences begin with `name`.
  template <class T>
  Reflector(std::string name, Resource resource, Transport& transport, Consumer<T> consumer,
            ReflectorHandlers handlers)
      : Reflector(std::move(name), std::move(resource), transport, events_of(std::move(consumer)),
                  std::move(handlers)) {}
  // Safe from any thread that is not the executor's own, while the executor runs: waits until no
  // handler is running. On the executor itself: immediate.
  ~Reflector();

  void start();
  // A relist has been completed. Any thread.
  bool synced() const;
  // Milliseconds since the server was last heard of (a page, a line, a bookmark). Any thread.
  Duration silent_for() const;

 private:
  struct State;
  using OnEvent = std::function<Taken(const WatchEvent& event)>;

  Reflector(std::string name, Resource resource, Transport& transport, OnEvent on_event,
            ReflectorHandlers handlers);

  template <class T>
  static OnEvent events_of(Consumer<T> consumer) {
    return [events = std::make_shared<ObjectEvents<T>>(std::move(consumer))](
               const WatchEvent& event) { return events->on_event(event); };
  }

  std::shared_ptr<State> state_;
};

// The sentence of Taken.
std::string unreadable_object(std::string_view json, const Error& why);

template <class T>
Taken ObjectEvents<T>::on_event(const WatchEvent& event) {
  using Kind = WatchEvent::Kind;
  if (event.kind == Kind::kRelistBegin) {
    relisted_.clear();
    complete_ = true;
    return {};
  }
  if (event.kind == Kind::kRelistEnd) {
    consumer_.relist(std::exchange(relisted_, {}), complete_);
    return {.called = true, .unreadable = {}};
  }
  Result<T> object = consumer_.read(event.object);
  if (!object) {
    complete_ = false;
    return {.called = false, .unreadable = unreadable_object(event.object, object.error())};
  }
  if (event.kind == Kind::kRelistObject) {
    relisted_.push_back(*std::move(object));
    return {};
  }
  (event.kind == Kind::kDelete ? consumer_.remove : consumer_.apply)(*std::move(object));
  return {.called = true, .unreadable = {}};
}

}  // namespace mgpu::kube
