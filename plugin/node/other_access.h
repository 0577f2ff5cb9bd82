// Who else than mgpu gives cards of this node to containers. Such a container uses cards that are
// allocated to others, and nothing limits it. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/objects/objects.h"
#include "plugin/node/toolkit_config.h"

namespace mgpu::plugin {

inline constexpr std::string_view kExclusiveConditionType = "MGPUCardsExclusive";
inline constexpr std::string_view kDraDriver = "gpu.nvidia.com";

struct AccessFacts {
  // Why the container runtime does not resolve the names of our CDI devices; empty: it does. Not
  // set: it did not answer.
  std::optional<std::string> cdi_problem;
  // The container runtime's handler of pods without a RuntimeClass, and the handlers that run
  // NVIDIA's container runtime. Not set if the runtime does not report them.
  std::optional<std::string> default_handler;
  std::vector<std::string> nvidia_handlers;
  ToolkitSettings toolkit;
  kube::StringMap capacity;           // of the Node object
  bool has_resource_slice = false;    // of kDraDriver for this node
  std::vector<std::string> problems;  // one sentence for each fact that could not be read
};

struct OtherAccess {
  // Stable, CamelCase; one of other_access_reasons().
  std::string reason;
  std::string message;  // one sentence that says what to change
  bool operator==(const OtherAccess&) const = default;
};

struct AccessReport {
  std::vector<OtherAccess> found;
  std::vector<std::string> unknown;  // one sentence each
};

const std::vector<std::string>& other_access_reasons();
AccessReport access_report(const AccessFacts& facts);

// Why a card of a node with this capacity, or these pods, is not offered: another device plugin
// gives it out, or has done so; empty: none has. MIG instances are of cards that are not offered
// anyway.
std::string given_by_another(const kube::StringMap& capacity);
std::string given_by_another(std::span<const kube::Pod> pods);

// The condition kExclusiveConditionType.
kube::Condition exclusive_condition(const AccessReport& report);

}  // namespace mgpu::plugin
