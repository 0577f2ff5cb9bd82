// Events on pods and on the node (core/v1 Event), for `kubectl describe`. Equal events are counted
// on one object, as kubelet's own are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "common/base/callback_guard.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"
#include "plugin/node/limits.h"

namespace mgpu::plugin {

struct Event {
  enum class Type { kNormal, kWarning };
  Type type = Type::kWarning;
  std::string reason;   // CamelCase: "MGPUCardUnhealthy"
  std::string message;  // one sentence that says what to do
};

// Any thread; never waits: what cannot be sent now or is over kEventsInFlightMax is dropped
// and counted. No callback runs after the destructor returns.
class EventRecorder {
 public:
  // `transport` outlives it. `now` gives RFC 3339 UTC, on any thread; none: the
  // machine's time.
  EventRecorder(NodeName node, kube::Transport& transport, std::function<std::string()> now);

  // `uid` may be empty where it is not known.
  void on_pod(const PodRef& pod, const PodUid& uid, const Event& event);
  void on_node(const Event& event);
  // Occurrences that were not sent, or whose request failed.
  std::uint64_t dropped() const;

 private:
  // Events are counted by what they are about, their reason, message and type.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  // One event as it stands at the API server, or is on its way there.
  struct Remembered {
    kube::EventObject event;
    std::uint64_t count = 0;    // occurrences
    std::uint64_t written = 0;  // of them, what the server knows
    std::uint64_t sending = 0;  // the same once the request under way is done; 0: there is none
    std::uint64_t last_use = 0;
  };

  static Key key_of(const kube::EventObject& event);
  void record(kube::EventObject event);
  void send(const Key& key, kube::Request request);
  void on_answer(const Key& key, const kube::Response& answer);

  std::optional<kube::Request> begin(const Key& key, kube::EventObject event) MGPU_REQUIRES(mutex_);
  std::optional<kube::Request> begin_next(Remembered& entry, const std::string& time)
      MGPU_REQUIRES(mutex_);
  std::optional<kube::Request> after(const Key& key, const kube::Response& answer,
                                     const std::string& time) MGPU_REQUIRES(mutex_);
  void make_room() MGPU_REQUIRES(mutex_);

  const NodeName node_;
  kube::Transport& transport_;
  const std::function<std::string()> now_;

  mutable Mutex mutex_;
  std::map<Key, Remembered> remembered_ MGPU_GUARDED_BY(mutex_);
  std::size_t in_flight_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t uses_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MGPU_GUARDED_BY(mutex_) = 0;
  CallbackGuard callbacks_;  // ends first
};

}  // namespace mgpu::plugin
