// Reads through NVML how the cards of a node are connected with each other.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/contract/card_links.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::plugin::nvml {

struct LinkedCard {
  Device device = nullptr;
  std::string uuid;
};

struct LinkReading {
  CardLinks links;                         // by the positions of the cards
  std::vector<std::optional<int>> numa{};  // the NUMA node of each card; none: not known
  // Why links count as worse than the driver may know, one sentence; empty: they do not.
  std::string problem;
};

// `begin` is called with each card before the calls about it, which may block for as long as the
// driver does. `node_root` has the /sys of the node. A link that cannot be read is kFar. Two cards
// at NVSwitches have as many NVLinks as the one of them that has fewer. An active NVLink whose
// other end cannot be identified leads to an NVSwitch: a virtual machine does not see these
// (github.com/NVIDIA/nccl/issues/1182).
LinkReading read_links(const Library& library, std::span<const LinkedCard> cards,
                       const std::string& node_root,
                       const std::function<void(const LinkedCard&)>& begin);

}  // namespace mgpu::plugin::nvml
