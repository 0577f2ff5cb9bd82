// Chooses the devices that kubelet is offered. Ids do not belong to particular cards, so the loss
// of a card means that some ids must be withdrawn. Pure.
//
// kube-scheduler and kubelet subtract the requests of all pods of the node from its capacity, also
// of those on unhealthy cards. So the capacity is that of the healthy cards, and what pods hold of
// the unhealthy ones:
//
//   capacity - requests = capacity of healthy cards - requests on healthy cards
//
// With the healthy cards alone, these requests would be subtracted from healthy cards, which then
// could not be used. No pod gets more by it, because mgpu-extender places none on an unhealthy
// card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

std::int64_t healthy_cards(const std::vector<CardFacts>& cards);

// What the annotated pods of this node hold of unhealthy cards, at most all of each, as requests:
// whole cards count no memory. Finished pods hold nothing, and cards that the node does not have
// are skipped.
Share held_on_unhealthy(const std::vector<CardFacts>& cards, const std::vector<kube::Pod>& pods,
                        const Contract& contract);
// The same from the records of started containers, until the pods are known. It may be more, since
// init containers are added to the others, and whole cards count their memory.
Share held_on_unhealthy(const std::vector<CardFacts>& cards, const std::vector<Record>& records);

// What the annotated pods of this node request of the card's compute. Finished pods hold nothing.
Percent core_held(CardIndex card, const std::vector<kube::Pod>& pods, const Contract& contract);

// Percent and MiB of all healthy cards and of `held`, which is the result of held_on_unhealthy.
Share offered(const std::vector<CardFacts>& cards, const Share& held);

// One id for each percent offered, in order. Ids in use stay, those on healthy cards first, because
// kubelet refuses to restart a pod whose devices are no longer offered. Free ids are withdrawn.
std::vector<std::string> offered_core_ids(const std::vector<CardFacts>& cards,
                                          const std::vector<Record>& records, const Share& held);

// One id for each MiB offered.
std::vector<std::string> offered_memory_ids(const std::vector<CardFacts>& cards, const Share& held);

// Errors: the list with one device for each MiB is too large for a message to kubelet; the sentence
// has the numbers and what to do instead.
Result<void> check_memory_list(std::int64_t mib);

}  // namespace mgpu::plugin
