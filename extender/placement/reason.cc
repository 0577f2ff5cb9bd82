#include "extender/placement/reason.h"

#include <cstddef>
#include <iterator>

#include "common/base/check.h"

namespace mgpu::extender {
namespace {

// In the order of Reason.
constexpr std::string_view kSentences[] = {
    "the node and its cards have not been seen yet",
    "the node has no cards",
    "the node requires a larger share of a card",
    "the node runs no parts of several cards, which MPS cannot limit",
    "the node has fewer cards than a container requests",
    "too few cards match gpu-model and gpu-uuid",
    "too few cards are healthy",
    "too few cards are not cordoned",
    "too few cards are large enough, even when empty",
    "the pod's containers together are too large for the node's cards, even when empty",
    "cards are blocked by a pod whose cards are not known",
    "too few cards have enough free mgpu-core",
    "too few cards have enough free mgpu-memory",
    "too few cards have both enough free mgpu-core and enough free mgpu-memory",
    "each container fits alone, but not all of them together",
    "no placement of the pod's containers was found within the search bound",
    "the free cards are kept for another pod",
};
static_assert(std::size(kSentences) == static_cast<std::size_t>(Reason::kNominated) + 1);

}  // namespace

std::string_view sentence(Reason reason) {
  const auto at = static_cast<std::size_t>(reason);
  MGPU_CHECK(at < std::size(kSentences), "a reason outside its enumeration");
  return kSentences[at];
}

bool eviction_can_help(Reason reason) {
  return reason >= Reason::kCardsUncertain;
}

Rejection rejection(Reason reason) {
  switch (reason) {
    case Reason::kCore:
    case Reason::kMemory:
    case Reason::kCoreAndMemory:
    case Reason::kTogether:
    case Reason::kSearchBound:
      return Rejection::kFragmentation;
    case Reason::kNominated:
      return Rejection::kKept;
    case Reason::kCardsUnhealthy:
    case Reason::kCardsCordoned:
    case Reason::kCardsUncertain:
      return Rejection::kUnhealthy;
    case Reason::kNodeUnknown:
    case Reason::kNoCards:
    case Reason::kShareTooSmall:
    case Reason::kPartsOfOneCard:
    case Reason::kTooFewCards:
    case Reason::kNoCardMatches:
    case Reason::kCardsTooSmall:
    case Reason::kContainersTooLarge:
      return Rejection::kNeverFits;
  }
  return Rejection::kNeverFits;
}

std::string_view name(Rejection rejection) {
  switch (rejection) {
    case Rejection::kFragmentation:
      return "fragmentation";
    case Rejection::kKept:
      return "kept";
    case Rejection::kUnhealthy:
      return "unhealthy";
    case Rejection::kNeverFits:
      return "never_fits";
    case Rejection::kInvalid:
      return "invalid";
  }
  return "unknown";
}

}  // namespace mgpu::extender
