// All edits of one bound container: the device nodes of its cards, its environment, and the edits
// that enforce its share.
#pragma once

#include "common/base/result.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/isolation.h"

namespace mgpu::plugin {

// Errors: the share cannot be enforced. Any thread.
Result<Edits> edits_of(const Record& record, const Inventory& inventory,
                       const Isolation& isolation);

}  // namespace mgpu::plugin
