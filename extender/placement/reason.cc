#include "extender/placement/reason.h"

#include "common/base/check.h"

namespace mgpu::extender {

std::string_view sentence(Reason reason) {
  switch (reason) {
    case Reason::kNodeUnknown:
      return "the node and its cards have not been seen yet";
    case Reason::kNoCards:
      return "the node has no cards";
    case Reason::kTooFewCards:
      return "the node has fewer cards than a container asks for";
    case Reason::kNoCardMatches:
      return "too few cards match gpu-model and gpu-uuid";
    case Reason::kCardsUnhealthy:
      return "too few cards are healthy";
    case Reason::kCardsTooSmall:
      return "too few cards are large enough, even when empty";
    case Reason::kContainersTooLarge:
      return "the pod's containers together are too large for the node's cards, even when empty";
    case Reason::kCardsUncertain:
      return "cards are blocked by a pod whose cards are not known";
    case Reason::kCore:
      return "too few cards have enough free mgpu-core";
    case Reason::kMemory:
      return "too few cards have enough free mgpu-memory";
    case Reason::kCoreAndMemory:
      return "too few cards have both enough free mgpu-core and enough free mgpu-memory";
    case Reason::kTogether:
      return "each container fits alone, but not all of them together";
    case Reason::kSearchBound:
      return "no placement of the pod's containers was found within the search bound";
  }
  MGPU_CHECK(false, "a reason outside its enumeration");
  return {};
}

bool eviction_can_help(Reason reason) {
  return reason >= Reason::kCardsUncertain;
}

}  // namespace mgpu::extender
