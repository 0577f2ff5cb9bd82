// The fields that must be written so that the Node object matches a report. No I/O.
#pragma once

#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "common/kube/request.h"
#include "plugin/node/node_publisher.h"

namespace mgpu::plugin {

inline constexpr std::string_view kConditionType = kReadyCondition;

struct NodeDifference {
  std::optional<std::string> cards;  // new value of the annotation mgpu-cards
  kube::NodeStatusChange status;
  std::optional<std::vector<kube::Taint>> taints;  // all taints that the node is to have
  std::string problem;  // one sentence if a part of the report cannot be written, else empty

  bool changes_status() const { return !status.capacity.empty() || status.condition; }
  bool only_taints() const { return taints && !cards && !changes_status(); }
  bool none() const { return !cards && !changes_status() && !taints; }
};

// `now` is RFC 3339, for the times of the condition.
NodeDifference difference(const NodeReport& report, const kube::Node& node,
                          const Contract& contract, const std::string& now);

}  // namespace mgpu::plugin
