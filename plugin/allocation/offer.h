// Which devices kubelet is told of. Ids are of no card in particular, so that losing a card means
// choosing ids to take away. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// MiB of all healthy cards.
std::int64_t healthy_memory(const std::vector<CardFacts>& cards);
std::int64_t healthy_cards(const std::vector<CardFacts>& cards);

// 100 ids for each healthy card, in order. Ids held on a healthy card stay, since kubelet refuses
// to start a pod again whose devices it no longer hears of; those held on a sick card go first.
std::vector<std::string> offered_core_ids(const std::vector<CardFacts>& cards,
                                          const std::vector<Record>& records);

// One id for each MiB of the healthy cards.
std::vector<std::string> offered_memory_ids(const std::vector<CardFacts>& cards);

// Errors: the list of one device for each MiB does not fit a message to kubelet; the sentence has
// the numbers and what to do instead.
Result<void> check_memory_list(std::int64_t mib);

}  // namespace mgpu::plugin
