// All edits of one bound container: the device nodes of its cards, its environment, and the edits
// that enforce its share.
#pragma once

#include "common/base/result.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps.h"

namespace mgpu::plugin {

// Without `mps` nothing enforces shares. Errors: a card is not found now, or the share cannot be
// enforced. Any thread.
Result<Edits> edits_of(const Record& record, const Inventory& inventory, const Mps* mps);

}  // namespace mgpu::plugin
