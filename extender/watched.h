// One collection that the extender follows: its reflector, whether it has been listed, and whether
// the API server still answers for it.
//
//   Listing --relist--> Listed          Answering <--heard-- --problem--> Troubled
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/kube/reflector.h"
#include "extender/probe.h"

namespace mgpu::extender {

class Watched {
 public:
  // Each on the transport's executor.
  struct Events {
    std::function<void()> on_change;  // after each call of the consumer
    std::function<void()> on_listed;  // once
  };

  // `transport` and `probe` outlive it. `name` is a literal.
  template <class T>
  Watched(const char* name, kube::Resource resource, kube::Transport& transport, Probe& probe,
          kube::Consumer<T> consumer, Events events)
      : name_(name),
        transport_(transport),
        probe_(probe),
        events_(std::move(events)),
        reflector_(name, std::move(resource), transport, std::move(consumer), handlers()) {}

  void start() { reflector_.start(); }

  // Any thread.
  const char* name() const { return name_; }
  bool listed() const { return listed_; }
  Duration silent_for() const { return reflector_.silent_for(); }
  // An object of the collection that cannot be used, and why: it is counted, and named once in the
  // log. On the executor.
  void note_unreadable(const std::string& why);
  // How often that was. Any thread.
  std::uint64_t unreadable() const { return unreadable_; }
  // The sentence of the last failure, while nothing has been heard since; else empty.
  std::string problem() const;

 private:
  kube::ReflectorHandlers handlers();
  void on_change();
  void on_problem(const std::string& problem);
  bool troubled() const MGPU_REQUIRES(mutex_);

  const char* const name_;
  kube::Transport& transport_;
  Probe& probe_;
  const Events events_;
  std::atomic<bool> listed_ = false;
  std::atomic<std::uint64_t> unreadable_ = 0;
  std::set<std::string> unreadable_told_;  // on the executor: sentences that the log has
  mutable Mutex mutex_;
  std::string problem_ MGPU_GUARDED_BY(mutex_);
  Instant problem_at_ MGPU_GUARDED_BY(mutex_){};
  bool told_ = false;          // on the executor: the log knows of the trouble
  kube::Reflector reflector_;  // ends first: it calls the others
};

}  // namespace mgpu::extender
