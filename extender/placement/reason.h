// Why a pod does not fit a node or a card. Sentences hold no numbers and no names, so that equal
// refusals are equal text and kube-scheduler can count them; the numbers are in explain.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace mgpu::extender {

// In order of precedence: where several hold, the first is told.
enum class Reason : std::uint8_t {
  // No eviction can help (FailedAndUnresolvableNodes).
  kNodeUnknown,         // the ledger has never seen the node
  kNoCards,             // the node has no cards
  kTooFewCards,         // fewer cards than a container needs, whatever their state
  kNoCardMatches,       // gpu-model or gpu-uuid leave too few cards
  kCardsUnhealthy,      // too few of them are healthy
  kCardsTooSmall,       // too few of them would be large enough, even empty
  kContainersTooLarge,  // the pod's containers together exceed the cards, even empty
  // Pods that leave can help (FailedNodes).
  kCardsUncertain,  // cards are blocked by a pod whose cards are not known
  kCore,            // too few cards have the compute
  kMemory,          // they have the compute, too few have the memory
  kCoreAndMemory,   // some have the compute, some the memory, too few have both
  kTogether,        // each container alone would fit, not all together
  kSearchBound,     // kPlacementStepsMax steps were reached before an answer
};

// One sentence without a full stop, such as "too few cards have enough free mgpu-core".
std::string_view sentence(Reason reason);

// True where evicting pods may make room.
bool eviction_can_help(Reason reason);

}  // namespace mgpu::extender
