#include "extender/placement/reason.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "common/base/check.h"

namespace mgpu::extender {
namespace {

struct Sentence {
  std::string_view text;
  // Where a container requests several cards, if that is another text.
  std::string_view several = {};
};

// In the order of Reason.
constexpr Sentence kSentences[] = {
    {"node(s) whose cards are not known yet"},
    {"node(s) had no cards"},
    {"node(s) required a larger share of a card"},
    {"node(s) could not run parts of several cards, which MPS cannot limit"},
    {"node(s) had fewer cards than a container requests"},
    {"node(s) had no card of the requested model or UUID",
     "node(s) had too few cards of the requested model or UUID"},
    {"node(s) had too few healthy cards"},
    {"node(s) had too few cards that are not cordoned"},
    {"node(s) had no card that large, even empty",
     "node(s) had too few cards that large, even empty"},
    {"node(s) had too few cards linked by NVLink, even empty"},
    {"node(s) had no room for all containers together, even with empty cards"},
    {"node(s) had cards blocked by a pod whose cards are not known"},
    {"node(s) had no single card with enough free mgpu-core",
     "node(s) had too few cards with enough free mgpu-core"},
    {"node(s) had no single card with enough free mgpu-memory",
     "node(s) had too few cards with enough free mgpu-memory"},
    {"node(s) had no single card with enough free mgpu-core and mgpu-memory",
     "node(s) had too few cards with enough free mgpu-core and mgpu-memory"},
    {"node(s) had too few free cards linked by NVLink"},
    {"node(s) had room for each container alone, but not for all together"},
    {"node(s) had no placement within the bound of the search"},
    {"node(s) had free cards that are kept for another pod"},
};
static_assert(std::size(kSentences) == static_cast<std::size_t>(Reason::kNominated) + 1);

// By the numbers of the rejections.
constexpr std::array<std::string_view, 5> kRejectionNames{"fragmentation", "kept", "unhealthy",
                                                          "never_fits", "invalid"};
static_assert(static_cast<std::size_t>(Rejection::kInvalid) + 1 == kRejectionNames.size());

}  // namespace

std::string_view sentence(Reason reason, bool several_cards) {
  const auto at = static_cast<std::size_t>(reason);
  MGPU_CHECK(at < std::size(kSentences), "a reason outside its enumeration");
  const Sentence& found = kSentences[at];
  return several_cards && !found.several.empty() ? found.several : found.text;
}

std::string_view sentence(Reason reason, const GpuRequest& request) {
  // A pod that names neither gets every card but these.
  if (reason == Reason::kNoCardMatches && request.selector.empty())
    return "node(s) had too few cards beside MIG devices, which gpu-model must name";
  return sentence(reason, std::ranges::any_of(request.containers,
                                              [](const auto& one) { return one.cards > 1; }));
}

bool eviction_can_help(Reason reason) {
  return reason >= Reason::kCardsUncertain;
}

Rejection rejection(Reason reason) {
  switch (reason) {
    case Reason::kCore:
    case Reason::kMemory:
    case Reason::kCoreAndMemory:
    case Reason::kLinkedCards:
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
    case Reason::kNoLinkedCards:
    case Reason::kContainersTooLarge:
      return Rejection::kNeverFits;
  }
  return Rejection::kNeverFits;
}

std::string_view to_string(Rejection rejection) {
  return kRejectionNames.at(static_cast<std::size_t>(rejection));
}

}  // namespace mgpu::extender
