// Keeps a consumer up to date with a collection at the API server: it runs a Watcher over a
// Transport and gives the consumer typed objects.
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
#include "common/kube/watch/watcher.h"

namespace mgpu::kube {

// Gets a collection of T, which is an object or the part of one that the consumer needs. The first
// call is `relist`.
template <class T>
struct Consumer {
  // Also called for objects of a relist that is given up before its end.
  std::function<Result<T>(std::string_view json)> read;
  // Set for a collection in_protobuf(): the server sends either.
  std::function<Result<T>(std::string_view message)> read_protobuf{};
  std::function<void(T)> apply;   // the object is new, or has changed
  std::function<void(T)> remove;  // the object was deleted; this is its last state
  // The whole collection. Objects that are not among these no longer exist, unless `complete` is
  // false: then at least one object could not be read, and a missing one may be that.
  std::function<void(std::vector<T> objects, bool complete)> relist;
};

// The result of an event.
struct Delivered {
  bool called = false;     // the consumer was called
  std::string unreadable;  // which object cannot be read, and why; usually empty
};

// Turns a watcher's events into calls of a consumer. The objects of a relist are collected first,
// and the consumer gets all of them at its end. An object that cannot be read is skipped. Not
// thread-safe.
template <class T>
class ObjectEvents {
 public:
  explicit ObjectEvents(Consumer<T> consumer) : consumer_(std::move(consumer)) {}

  Delivered on_event(const WatchEvent& event);

 private:
  Consumer<T> consumer_;
  std::vector<T> relisted_;
  bool complete_ = true;
};

// Called on the transport's executor, one at a time, as the consumer is.
struct ReflectorEvents {
  // One sentence for the log when listing or watching failed. The reflector tries again by itself.
  std::function<void(const std::string&)> on_problem{};
  // One sentence: which object cannot be read, and why. It was skipped.
  std::function<void(const std::string&)> on_unreadable{};
  // After each call of the consumer.
  std::function<void()> on_change{};
};

class Reflector {
 public:
  // `transport` outlives the reflector. Sentences begin with `name`.
  template <class T>
  Reflector(std::string name, Resource resource, Transport& transport, Consumer<T> consumer,
            ReflectorEvents events)
      : Reflector(std::move(name), std::move(resource), transport, events_of(std::move(consumer)),
                  std::move(events)) {}
  // Any thread. On another thread than the executor's it waits until no handler is running.
  ~Reflector();

  void start();
  // Lists the collection again from the newest state, as if it had just been started. A relist that
  // is in progress is given up. On the executor, and not from within a handler.
  void restart();
  // A relist has been completed since the last start. Any thread.
  bool synced() const;
  // The time since the server last sent a page, a line or a bookmark. Any thread.
  Duration silent_for() const;

 private:
  struct State;
  using OnEvent = std::function<Delivered(const WatchEvent& event)>;

  Reflector(std::string name, Resource resource, Transport& transport, OnEvent on_event,
            ReflectorEvents events);

  template <class T>
  static OnEvent events_of(Consumer<T> consumer) {
    return [events = std::make_shared<ObjectEvents<T>>(std::move(consumer))](
               const WatchEvent& event) { return events->on_event(event); };
  }

  std::shared_ptr<State> state_;
};

// The sentence for Delivered::unreadable.
std::string unreadable_object(const WatchEvent& event, const Error& why);

template <class T>
Delivered ObjectEvents<T>::on_event(const WatchEvent& event) {
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
  const bool protobuf = event.encoding == Encoding::kProtobuf;
  const auto& read = protobuf ? consumer_.read_protobuf : consumer_.read;
  Result<T> object = read ? read(event.object) : error("it is in protobuf, expected JSON");
  if (!object) {
    complete_ = false;
    return {.called = false, .unreadable = unreadable_object(event, object.error())};
  }
  if (event.kind == Kind::kRelistObject) {
    relisted_.push_back(*std::move(object));
    return {};
  }
  (event.kind == Kind::kDelete ? consumer_.remove : consumer_.apply)(*std::move(object));
  return {.called = true, .unreadable = {}};
}

}  // namespace mgpu::kube
