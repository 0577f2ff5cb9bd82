// What the node object says of the cards: the annotation mgpu-cards, the condition MGPUReady and
// capacity of mgpu-memory (where it is not a device-plugin resource), written on change only and
// brought back where somebody else changed them.
//
//             node read            differs
//   Unknown --------------> Idle ------------> Writing ---- fails ----> Waiting
//                            ^ |                 |                         |
//                no such node| | equal: settled  +-- works --> Idle <------+
//                            +-+
//
// Idle compares whenever a report or a node event comes. Waits grow. What somebody else changes is
// written again at once the first time, and with growing waits where that does not end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "common/kube/transport.h"

namespace mgpu::plugin {

struct NodeReport {
  std::vector<CardFacts> cards;
  // Capacity of mgpu-memory in MiB; none: kubelet publishes it, leave it alone.
  std::optional<std::int64_t> memory;
  enum class Ready { kTrue, kFalse, kUnknown };
  Ready ready = Ready::kUnknown;
  std::string reason;   // CamelCase: "CardsReady", "NoCards", "NoDriver", "KubeletAbsent"
  std::string message;  // one sentence
  bool operator==(const NodeReport&) const = default;
};

// Runs on the transport's executor.
class NodePublisher {
 public:
  // `transport` outlives it. Problems (no such node, no right) are told once each until one works;
  // `on_problem` runs on the executor and must not end the publisher. `now` gives RFC 3339 UTC;
  // none: the machine's time.
  NodePublisher(NodeName node, Contract contract, kube::Transport& transport,
                std::function<void(const std::string&)> on_problem,
                std::function<std::string()> now = {});
  ~NodePublisher();  // REQUIRES: on the executor, or while it runs nothing

  void publish(NodeReport report);  // any thread
  // The last report stands on the node. Any thread.
  bool settled() const;
  // The node object does not exist, as last heard. Any thread.
  bool node_missing() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::plugin
