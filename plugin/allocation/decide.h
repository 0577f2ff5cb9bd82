// May this container start, and with which cards? Everything it needs is given; nothing is waited
// for. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "plugin/allocation/identify.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

enum class RefusalReason {
  kUnknownContainer,  // it cannot be told which container it is
  kUnknownPod,        // the pod is not known at the API server (yet), or is another one
  kNoCards,           // the pod carries no cards: bound without the extender
  kBadCards,          // what it carries does not parse or does not match what it asks
  kNoSuchCard,
  kUnhealthyCard,
  kFullCard,
  kOtherCards,  // not the cards it was started with before
  kNotReady,    // isolation, a runtime or a disk that does not work
};
// For metrics and events: "unknown_pod" and "MGPUUnknownPod".
std::string_view label(RefusalReason reason);
std::string_view event_reason(RefusalReason reason);

struct Refusal {
  RefusalReason reason = RefusalReason::kUnknownContainer;
  std::string message;     // one sentence that says what to do
  bool transient = false;  // news may change it: worth waiting for
  // Whose container it is, where that is known.
  PodRef pod{};
  PodUid uid{};
};

template <class T>
using Decided = boost::system::result<T, Refusal>;
[[noreturn]] void throw_exception_from_error(const Refusal& refusal,
                                             const boost::source_location& where);

// What the node is like at this moment.
struct NodeState {
  NodeName name;
  std::vector<CardFacts> cards;  // ascending by index, sick and lost ones with their health
  std::vector<Record> bound;     // records of pods that may still run
};

// The record of a container that starts: bound to its owner, with the cards that the pod's
// annotation names. `record` is the one of `identity`.
Decided<Record> decide(const Identity& identity, const Record& record, const kube::Pod& pod,
                       const NodeState& node, const Contract& contract);

// A container that was bound before and starts again while the API server cannot be asked: the
// cards it had. REQUIRES: record.bound().
Decided<Record> decide_again(const Record& record, const NodeState& node);

}  // namespace mgpu::plugin
