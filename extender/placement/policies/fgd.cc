#include "extender/placement/policies/fgd.h"

#include <cmath>
#include <span>

#include "extender/placement/policies/bestfit.h"
#include "extender/placement/published.h"
#include "extender/pricing/price_snapshot.h"
#include "extender/pricing/target_workload.h"

namespace mgpu::extender {

namespace {

bool knows_workload(const Ask& ask) {
  return ask.market != nullptr && !ask.market->target.empty();
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// REQUIRES: knows_workload(ask).
Score score(const Ask& ask, const Node& node, std::span<const CardHold> pod) {
  const TargetWorkload& target = ask.market->target;
  const double growth =
      target.fragmentation_after(node, ask.host, pod) - target.fragmentation(node);
  return hundredths(sigmoid(-growth / 1000));
}

Score score_card(const Ask& ask, const Node& node, const Card& card, const Share& taken,
                 const Share& share) {
  if (!knows_workload(ask)) return tightest_card(ask, node, card, taken, share);
  if (share.core >= kWholeCard) return 0;
  // Beside what the node counts, `taken` has what other containers of the pod take.
  const Share counted = card.used + card.expected;
  const CardHold hold{card.index, room_in(taken + share, counted)};
  return score(ask, node, {&hold, 1});
}

Score score_node(const Ask& ask, const Node& node, const std::vector<CardHold>& pod) {
  return knows_workload(ask) ? score(ask, node, pod) : kBestFit.score_node(ask, node, pod);
}

}  // namespace

const Policy kFgd{.name = "fgd",
                  .score_card = score_card,
                  .score_node = score_node,
                  .ranks_pods_without_cards = true};

}  // namespace mgpu::extender
