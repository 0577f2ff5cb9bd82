// Chooses the devices that kubelet is offered. Ids do not belong to particular cards, so the loss
// of a card means that some ids must be withdrawn. Pure.
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

// 100 ids for each healthy card, in order. Ids used on healthy cards stay, since kubelet refuses to
// restart a pod whose devices are no longer offered. Ids used on unhealthy cards are withdrawn
// first.
std::vector<std::string> offered_core_ids(const std::vector<CardFacts>& cards,
                                          const std::vector<Record>& records);

// One id for each MiB of the healthy cards.
std::vector<std::string> offered_memory_ids(const std::vector<CardFacts>& cards);

// Errors: the list with one device for each MiB is too large for a message to kubelet; the sentence
// has the numbers and what to do instead.
Result<void> check_memory_list(std::int64_t mib);

}  // namespace mgpu::plugin
