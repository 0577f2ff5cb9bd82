// The names that shells propose, from the API server.
#pragma once

#include <string>
#include <vector>

#include "extender/kubectl/completion.h"

namespace mgpu::kubectl {

// Nodes with cards, the indices of the cards of the node in `wanted.words`, pods that request
// cards, or namespaces. Follows --kubeconfig, --context, --namespace, --selector and
// --resource-domain of the line. None if there is no answer within kProposalTimeout, or a flag
// is not valid: an error would be written into the line that somebody types.
std::vector<std::string> read_names(const NamesWanted& wanted);

}  // namespace mgpu::kubectl
