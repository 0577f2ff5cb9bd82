// Everything that one bound container gets: its cards' nodes, its environment, and what enforces
// its share.
#pragma once

#include "common/base/result.h"
#include "plugin/cards/inventory.h"
#include "plugin/cards/mps.h"

namespace mgpu::plugin {

// Without `mps` nothing enforces shares. Errors: enforcement is not working; one sentence. Any
// thread.
Result<Edits> edits_of(const Record& record, const Inventory& inventory, const Mps* mps);

}  // namespace mgpu::plugin
