// The indices that this node's cards have had. They are saved in a file; if it is lost, they are
// read from the annotation of the Node object.
#pragma once

#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/kube/transport.h"
#include "plugin/cards/card_index.h"

namespace mgpu::plugin {

// Errors: the file does not exist or is invalid.
Result<KnownCards> load_card_indices(const std::string& path);
Result<void> save_card_indices(const std::string& path, const KnownCards& known);

// Returns no cards if the node does not exist or has no annotation. Errors: the API server does not
// answer, or the annotation is invalid; then no new index may be assigned. REQUIRES: not on the
// executor.
Result<KnownCards> fetch_card_indices(kube::Transport& transport, const NodeName& node,
                                      const Contract& contract);
// Returns the indices of the file, or else those of the Node object. Nullopt, which is logged:
// neither is known now. REQUIRES: not on the executor.
std::optional<KnownCards> find_card_indices(const std::string& path, kube::Transport& transport,
                                            const NodeName& node, const Contract& contract);

}  // namespace mgpu::plugin
