// Events on pods and on nodes (core/v1 Event), which `kubectl describe` shows. Equal events are
// counted on one object, as kubelet's own events are.
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
  std::string message;  // one sentence that says what to do
};

// Any thread. Calls do not block: an event beyond kEventsInFlightMax requests is dropped and
// counted. No callback runs after the destructor returns.
class EventRecorder {
 public:
  // `transport` outlives the recorder. `now` returns the time as RFC 3339 in UTC, on any thread.
  EventRecorder(EventSource source, Transport& transport, std::function<std::string()> now);

  // `uid` may be empty.
  void on_pod(const PodRef& pod, const PodUid& uid, const Event& event);
  void on_node(const NodeName& node, const Event& event);
  // On the host of the source.
  void on_node(const Event& event) { on_node(NodeName(source_.host), event); }
  // Events that were not sent, or whose request failed.
  std::uint64_t dropped() const;

 private:
  // Events are equal if their object, reason, message and type are.
  using Key = std::tuple<std::string, std::string, std::string, std::string, bool>;
  struct Recorded {
    EventObject event;
    std::uint64_t count = 0;    // how often it occurred
    std::uint64_t written = 0;  // the count that the API server has
    std::uint64_t sending = 0;  // the count in the request in flight; 0: no request
    std::uint64_t last_use = 0;
  };

  void record(EventObject object, const Event& event);
  void send(const Key& key, Request request);
  void on_response(const Key& key, const Response& response);

  // These return the request to send next, if there is one.
  std::optional<Request> add(const Key& key, EventObject event) MGPU_REQUIRES(mutex_);
  std::optional<Request> next_request(Recorded& entry, const std::string& time)
      MGPU_REQUIRES(mutex_);
  std::optional<Request> finish(const Key& key, const Response& response, const std::string& time)
      MGPU_REQUIRES(mutex_);

  const EventSource source_;
  Transport& transport_;
  const std::function<std::string()> now_;

  mutable Mutex mutex_;
  std::map<Key, Recorded> recorded_ MGPU_GUARDED_BY(mutex_);
  std::size_t in_flight_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t uses_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MGPU_GUARDED_BY(mutex_) = 0;
  CallbackGuard callbacks_;  // destroyed first
};

}  // namespace mgpu::kube
