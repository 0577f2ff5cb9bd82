// One collection that the extender watches: its reflector, whether it has been listed, and whether
// its list and watch succeed.
//
//   Listing --relist--> Listed          Answering --problem--> Failing --answer--> Answering
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/kube/watch/reflector.h"
#include "common/kube/watch/unreadable_objects.h"
#include "extender/probe.h"

namespace mgpu::extender {

class Watched {
 public:
  // Called on the transport's executor.
  struct Events {
    std::function<void()> on_change = [] {};  // after each call of the consumer
    std::function<void()> on_listed = [] {
    };  // after the first list, and the first one after restart()
  };

  // `transport` and `probe` outlive it. `name` is a literal.
  template <class T>
  Watched(const char* name, kube::Resource resource, kube::Transport& transport, Probe& probe,
          kube::Consumer<T> consumer, Events events)
      : name_(name),
        transport_(transport),
        probe_(probe),
        events_(std::move(events)),
        reflector_(name, std::move(resource), transport, std::move(consumer), reflector_events()) {}

  void start() { reflector_.start(); }
  // Lists the collection again, from the newest state. On the executor, and not from within an
  // event.
  void restart();

  // Any thread.
  const char* name() const { return name_; }
  bool listed() const { return listed_; }
  Duration silent_for() const { return reflector_.silent_for(); }
  // Counts an object that cannot be used, and logs each reason once. On the executor.
  void note_unreadable(const std::string& why);
  // How many times note_unreadable() was called. Any thread.
  std::uint64_t unreadable() const { return unreadable_.count(); }
  // The sentence of the last failure; empty once the API server has answered since.
  std::string problem() const;

 private:
  kube::ReflectorEvents reflector_events();
  void on_change();
  void on_problem(const std::string& problem);

  const char* const name_;
  kube::Transport& transport_;
  Probe& probe_;
  const Events events_;
  std::atomic<bool> listed_ = false;
  kube::UnreadableObjects unreadable_;
  mutable Mutex mutex_;
  std::string problem_ MGPU_GUARDED_BY(mutex_);
  Instant problem_at_ MGPU_GUARDED_BY(mutex_){};
  bool failing_ = false;       // on the executor
  kube::Reflector reflector_;  // ends first: its handlers use the others
};

}  // namespace mgpu::extender
