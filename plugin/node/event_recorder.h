// Events on pods and on the node (core/v1 Event), for `kubectl describe`. Equal events are counted
// on one object, as kubelet's own are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/kube/transport.h"

namespace mgpu::node {

struct Event {
  enum class Type { kNormal, kWarning };
  Type type = Type::kWarning;
  std::string reason;   // CamelCase: "MGPUCardUnhealthy"
  std::string message;  // one sentence that says what to do
};

// Any thread; never waits: what cannot be sent now or is over limits::kEventsInFlightMax is dropped
// and counted.
class EventRecorder {
 public:
  // `transport` outlives it. `now` gives RFC 3339 UTC, on any thread; none: the
  // machine's time.
  EventRecorder(NodeName node, kube::Transport& transport, std::function<std::string()> now);
  ~EventRecorder();

  // `uid` may be empty where it is not known.
  void on_pod(const PodRef& pod, const PodUid& uid, const Event& event);
  void on_node(const Event& event);
  // Occurrences that were not sent, or whose request failed.
  std::uint64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::node
