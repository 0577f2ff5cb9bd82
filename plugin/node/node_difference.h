// What must be written so that the node object says what the report says. A value for the
// publisher; no I/O.
#pragma once

#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "common/kube/request.h"
#include "plugin/node/node_publisher.h"

namespace mgpu::plugin {

inline constexpr std::string_view kConditionType = "MGPUReady";

struct NodeDifference {
  std::optional<std::string> cards;  // the annotation
  kube::NodeStatusChange status;
  std::string problem;  // a sentence where something of the report cannot be written

  bool status_differs() const { return !status.capacity.empty() || status.condition; }
  bool none() const { return !cards && !status_differs(); }
};

// `now`: RFC 3339, for the condition's times.
NodeDifference difference(const NodeReport& report, const kube::Node& node,
                          const Contract& contract, const std::string& now);

}  // namespace mgpu::plugin
