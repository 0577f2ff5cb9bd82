// Events on pods and on nodes (core/v1 Event), which `kubectl describe` shows. Equal events are
// counted on one object, as kubelet's own events are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/callback_guard.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// The program that writes Events.
struct EventSource {
  std::string component;  // "mgpu-device-plugin"
  std::string host;       // its node, or the name of one of several processes
};

struct Event {
  enum class Type { kNormal, kWarning };
  Type type = Type::kWarning;
  std::string reason;   // CamelCase: "MGPUCardUnhealthy"
  std::string message;  // one sentence with the remedy
};

// Any thread. Calls do not block. At most kEventsInFlightMax requests are in flight, and another
// new Event is sent when one of them ends. A new Event whose request failed for a reason that may
// go away, such as missing rights, is sent again for an hour (kEventTriesMax), while it is among
// the kEventsRememberedMax. No callback runs after the destructor returns.
class EventRecorder {
 public:
  // `transport` outlives the recorder. `now` returns the time as RFC 3339 in UTC, on any thread.
  EventRecorder(EventSource source, Transport& transport, std::function<std::string()> now);

  // `uid` may be empty.
  void on_pod(const PodRef& pod, const PodUid& uid, const Event& event);
  void on_node(const NodeName& node, const Event& event);
  // Records the Event on the host of the source.
  void on_node(const Event& event) { on_node(NodeName(source_.host), event); }
  // Events that were not sent at once, or whose request failed, also those that are sent again.
  std::uint64_t dropped() const;

 private:
  // Events are equal if their object, reason, message and type are.
  using Key = std::tuple<std::string, std::string, std::string, std::string, bool>;
  struct Recorded {
    EventObject event;
    std::uint64_t count = 0;    // how often it occurred
    std::uint64_t written = 0;  // the count that the API server has
    std::uint64_t sending = 0;  // the count in the request in flight; 0: no request
    std::uint64_t dropped = 0;  // the count that is in dropped_
    std::uint64_t last_use = 0;
    int failed = 0;                // requests to create it
    std::optional<Instant> due{};  // it waits to be sent again then
  };

  void record(EventObject object, const Event& event);
  void send(const Key& key, Request request);
  void on_response(const Key& key, const Response& response);
  // Sends Events that wait.
  void send_due();
  void start_timer();

  // These return the request to send next, if there is one.
  std::optional<Request> add(const Key& key, EventObject event) MGPU_REQUIRES(mutex_);
  std::optional<Request> next_request(Recorded& entry, const std::string& time)
      MGPU_REQUIRES(mutex_);
  std::optional<Request> finish(const Key& key, const Response& response, const std::string& time)
      MGPU_REQUIRES(mutex_);
  std::optional<std::pair<Key, Request>> next_due(const std::string& time) MGPU_REQUIRES(mutex_);
  void drop(Recorded& entry) MGPU_REQUIRES(mutex_);
  void make_room() MGPU_REQUIRES(mutex_);

  const EventSource source_;
  Transport& transport_;
  const std::function<std::string()> now_;

  mutable Mutex mutex_;
  std::map<Key, Recorded> recorded_ MGPU_GUARDED_BY(mutex_);
  std::size_t in_flight_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t uses_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MGPU_GUARDED_BY(mutex_) = 0;
  bool timer_runs_ MGPU_GUARDED_BY(mutex_) = false;
  CallbackGuard callbacks_;  // destroyed first
};

}  // namespace mgpu::kube
