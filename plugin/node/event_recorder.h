// Events on pods and on the node (core/v1 Event), which `kubectl describe` shows. Equal events are
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
#include "plugin/node/limits.h"

namespace mgpu::plugin {

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
  EventRecorder(NodeName node, kube::Transport& transport, std::function<std::string()> now);

  // `uid` may be empty.
  void on_pod(const PodRef& pod, const PodUid& uid, const Event& event);
  void on_node(const Event& event);
  // Events that were not sent, or whose request failed.
  std::uint64_t dropped() const;

 private:
  // Events are equal if their object, reason, message and type are.
  using Key = std::tuple<std::string, std::string, std::string, std::string, bool>;
  struct Recorded {
    kube::EventObject event;
    std::uint64_t count = 0;    // how often it occurred
    std::uint64_t written = 0;  // the count that the API server has
    std::uint64_t sending = 0;  // the count in the request in flight; 0: no request
    std::uint64_t last_use = 0;
  };

  void record(kube::EventObject object, const Event& event);
  void send(const Key& key, kube::Request request);
  void on_response(const Key& key, const kube::Response& response);

  // These return the request to send next, if there is one.
  std::optional<kube::Request> add(const Key& key, kube::EventObject event) MGPU_REQUIRES(mutex_);
  std::optional<kube::Request> next_request(Recorded& entry, const std::string& time)
      MGPU_REQUIRES(mutex_);
  std::optional<kube::Request> finish(const Key& key, const kube::Response& response,
                                      const std::string& time) MGPU_REQUIRES(mutex_);

  const NodeName node_;
  kube::Transport& transport_;
  const std::function<std::string()> now_;

  mutable Mutex mutex_;
  std::map<Key, Recorded> recorded_ MGPU_GUARDED_BY(mutex_);
  std::size_t in_flight_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t uses_ MGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MGPU_GUARDED_BY(mutex_) = 0;
  CallbackGuard callbacks_;  // destroyed first
};

}  // namespace mgpu::plugin
