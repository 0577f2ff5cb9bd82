// Why a pod does not fit a node or a card. Sentences hold no numbers and no names, so that equal
// refusals are equal text and kube-scheduler can count them; the numbers are in explain.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/contract/gpu_request.h"

namespace mgpu::extender {

// In order of precedence: if several apply, the first is reported.
enum class Reason : std::uint8_t {
  // No eviction makes the pod fit.
  kNodeUnknown,         // the ledger has never seen the node
  kNoCards,             // the node has no cards
  kShareTooSmall,       // a container requests less of a card than the node permits
  kPartsOfOneCard,      // a container requests parts of several cards, which do not start there
  kTooFewCards,         // the node has fewer cards than a container needs
  kNoCardMatches,       // gpu-model or gpu-uuid leave too few cards
  kCardsUnhealthy,      // too few of the matching cards are healthy
  kCardsCordoned,       // too few of the healthy cards are not cordoned
  kCardsTooSmall,       // too few of these cards are large enough, even empty
  kNoLinkedCards,       // too few of these are linked by NVLink, which the pod requires
  kContainersTooLarge,  // the pod's containers together exceed the cards, even empty
  // Evictions may make the pod fit.
  kCardsUncertain,  // cards are blocked by a pod whose cards are not known
  kCore,            // too few cards have the compute
  kMemory,          // enough cards have the compute, too few have the memory
  kCoreAndMemory,   // some have the compute, some the memory, too few have both
  kLinkedCards,     // enough cards have room, and too few of them are linked by NVLink
  kTogether,        // each container fits alone, but not all of them together
  kSearchBound,     // the search ended at its bound of steps without a result
  kNominated,       // what is free is reserved for other pods (ledger/nominations.h)
};

// Without a full stop and in the pattern of kube-scheduler's own reasons, which it puts behind the
// number of nodes: "2 node(s) had no single card with enough free mgpu-core".
std::string_view sentence(Reason reason, const GpuRequest& request);
// For a request in which a container has several cards, or none has.
std::string_view sentence(Reason reason, bool several_cards = false);

// Whether evicting pods may make the pod fit.
bool eviction_can_help(Reason reason);

// Why a pod that fits on no node waits, in order of precedence: of the reasons of its nodes, the
// first is what the pod waits for.
enum class Rejection : std::uint8_t {
  // On some node, cards together have what the pod requests, and no placement on them exists:
  // kube-scheduler only sends nodes whose free resources suffice in total.
  kFragmentation,
  kKept,       // free cards are reserved for another pod
  kUnhealthy,  // cards are not healthy, or cordoned, or a pod whose cards are not known blocks them
  kNeverFits,  // no node that kube-scheduler examined can ever host the pod
  kInvalid,    // the request of the pod is invalid
};

// Never kInvalid, which concerns the pod and no node.
Rejection rejection(Reason reason);

// Returns "fragmentation", as metrics have it.
std::string_view to_string(Rejection rejection);

}  // namespace mgpu::extender
