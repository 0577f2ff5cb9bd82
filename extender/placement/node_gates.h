// Which nodes kube-scheduler's own filters let a pod on, as far as the spec of both says it:
// cordons, taints, node selectors and required node affinity. Values; pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/kube/objects/objects.h"

namespace mgpu::extender {

// What of a node decides it.
struct NodeGates {
  std::vector<std::uint64_t> labels;  // hashes of each key and of each label, ascending
  std::vector<kube::Taint> taints;    // that keep pods away; a cordon is one of them
};

NodeGates gates_of(const kube::Node& node);

// Numbers in rules (Gt, Lt) are not compared and rules of more than kNodeRuleTextsMax texts are not
// read: they let the pod on every node.
bool may_enter(const kube::NodeRules& rules, std::string_view node, const NodeGates& gates);

}  // namespace mgpu::extender
