// Which nodes kube-scheduler's own filters let a pod on, as far as the spec of both says it:
// cordons, taints, node selectors and required node affinity. Values; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kube/objects/objects.h"

namespace mgpu::extender {

// What of a node decides it.
struct NodeGates {
  std::vector<std::uint64_t> labels;  // hashes of each key and of each label, ascending
  // The labels that are numbers, by the hash of their key, ascending.
  std::vector<std::pair<std::uint64_t, std::int64_t>> numbers;
  std::vector<kube::Taint> taints;  // that keep pods away
  bool cordoned = false;            // spec.unschedulable
};

// What keeps a pod from a node, in the order of kube-scheduler's filters.
enum class Gate : std::uint8_t { kCordon, kTaint, kAffinity };
// The sentence of kube-scheduler.
std::string_view sentence(Gate gate);

NodeGates gates_of(const kube::Node& node);

// Rules of more than kNodeRuleTextsMax texts are not read: they let the pod on every node.
bool are_read(const kube::NodeRules& rules);
// Nothing if the pod may be placed on the node.
std::optional<Gate> gate_for(const kube::NodeRules& rules, std::string_view node,
                             const NodeGates& gates);

}  // namespace mgpu::extender
