// Decides whether a container may start, and with which cards. Everything that is needed is passed
// in, and nothing blocks. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "plugin/allocation/identify.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

enum class RefusalReason {
  kUnknownContainer,  // the container cannot be identified
  kUnknownPod,        // the pod is unknown to the API server (yet), or is a different one
  kNoCards,           // the pod has no cards: it was bound without the extender
  kBadCards,          // the annotations do not parse or do not match the request
  kNoSuchCard,
  kUnhealthyCard,
  kFullCard,
  kOtherCards,  // not the cards that the container was started with before
  kNotReady,    // isolation, the runtime or the disk does not work
};
// Returns "unknown_pod", as metrics have it.
std::string_view to_string(RefusalReason reason);
// Returns "MGPUUnknownPod", as Events have it.
std::string_view event_reason(RefusalReason reason);

struct Refusal {
  RefusalReason reason = RefusalReason::kUnknownContainer;
  std::string message;     // one sentence that says what to do
  bool transient = false;  // may change by itself, so that waiting can help
  // The pod of the container, if known.
  PodRef pod{};
  PodUid uid{};
};

template <class T>
using Decided = boost::system::result<T, Refusal>;
[[noreturn]] void throw_exception_from_error(const Refusal& refusal,
                                             const boost::source_location& where);

// The current state of the node.
struct NodeState {
  NodeName name;
  std::vector<CardFacts> cards;  // ascending by index, including unhealthy and lost ones
  std::vector<Record> bound;     // records of pods that may still run
};

// The record of a container that starts: bound to its owner, with the cards of the pod's
// annotation. `record` is that of `identity`.
Decided<Record> decide(const Identity& identity, const Record& record, const kube::Pod& pod,
                       const NodeState& node, const Contract& contract);

// For a container that was bound before and starts again while the API server is unavailable: it
// keeps its cards. REQUIRES: record.bound().
Decided<Record> decide_again(const Record& record, const NodeState& node);

}  // namespace mgpu::plugin
