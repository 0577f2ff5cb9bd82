// All edits of one bound container: the device nodes of its cards, its environment, and the edits
// that enforce its share.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/containers/share_library.h"

namespace mgpu::plugin {

// The program that runs before a container starts, mgpu-set-limits, and the socket of LimitServer,
// both as paths on the node.
struct LimitHook {
  std::string program;
  std::string socket{};   // of the driver's limits
  std::string problem{};  // why there is none; one sentence
};

// What enforces shares now; nothing does if all are null. The library or the driver may limit the
// memory of a container whose compute MPS limits.
struct ShareLimits {
  const Mps* mps = nullptr;
  const LimitHook* mps_hook = nullptr;     // sees that the daemon of MPS answers
  const LimitHook* driver_hook = nullptr;  // has the driver's limits set
  const ShareLibrary* library = nullptr;
  // Prepares the cards of a container that is about to start. Errors: it must not start; one
  // sentence. Not set: there is nothing to do.
  std::function<Result<void>(const Record&)> before_start{};
};

// The daemons of MPS need not run yet; ShareLimits::before_start checks them, and the hook does so
// for containers that kubelet starts without the plugin. MGPU_ENFORCED of the environment says what
// the container cannot exceed: "memory", "memory,compute" or "none". Errors: a card is not found
// now, or the share cannot be enforced. Any thread.
Result<Edits> edits_of(const Record& record, const Inventory& inventory, const ShareLimits& limits);

}  // namespace mgpu::plugin
