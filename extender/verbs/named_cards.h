// What the annotations of a pod name, compared with the cards that the cluster has. A list with a
// name that no card has is valid, and has less effect than it seems to: an excluded card that is
// spelled in another way is not excluded.
#pragma once

#include <string>

#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "extender/ledger/ledger_reader.h"

namespace mgpu::extender {

// Returns "Tesla T4, Tesla V100 and 3 more", each model once. Empty if there are no cards.
// O(cards), in steps.
std::string models_of(const LedgerReader& ledger);

// Which names of `selector` no card has, and which models there are; one sentence without a full
// stop. Empty if each name has a card, and if the cluster has no cards.
// O(cards * names), in steps.
std::string unmatched_names(const LedgerReader& ledger, const CardSelector& selector,
                            const Contract& contract);

}  // namespace mgpu::extender
