#include "extender/placement/score.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "extender/placement/holds.h"

namespace mgpu::extender {

std::int32_t common_score(Score score) {
  constexpr Score kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::clamp(score, -kMost, kMost));
}

Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget) {
  PlacementContext without_links = context;
  without_links.by_links = false;
  const auto result = place(node, without_links, *policy.card, budget);
  const auto* placed = std::get_if<Placed>(&result);
  if (placed == nullptr) return {};
  const auto holds = extender::holds(node, context.request, placed->placement);
  const PolicyChoice here = policy_on(node, context.request, policy);
  Scored scored{.fits = true, .beside_expected = placed->beside_expected};
  const auto score_by = [&](const Policy& by) {
    budget.spend(node_steps(by, context, node));
    return by.score_node(context, node, holds);
  };
  scored.score = score_by(*here.node);
  if (here.node == policy.node) {
    scored.common = common_score(scored.score);
    return scored;
  }
  scored.common = common_score(score_by(*policy.node));
  scored.profile_policy = number_of(*here.node);
  return scored;
}

void make_comparable(std::vector<Scored>& nodes) {
  const auto by_profile = [](const Scored& node) { return node.fits && node.profile_policy != 0; };
  if (std::ranges::none_of(nodes, by_profile)) return;
  using Best = std::pair<bool, std::int32_t>;  // beside_expected, common
  std::map<std::uint8_t, Best> best;
  for (const Scored& node : nodes) {
    if (!node.fits) continue;
    const Best here{node.beside_expected, node.common};
    const auto [at, is_new] = best.emplace(node.profile_policy, here);
    if (!is_new) at->second = std::max(at->second, here);
  }
  const auto place = [&](const Scored& node) {
    return std::tuple(best.at(node.profile_policy), node.profile_policy, node.score);
  };
  std::vector<decltype(place(nodes.front()))> order;
  for (const Scored& node : nodes)
    if (node.fits) order.push_back(place(node));
  std::ranges::sort(order);
  order.erase(std::unique(order.begin(), order.end()), order.end());
  MGPU_CHECK(order.size() <= nodes.size(), "a rank for each node at most");
  for (Scored& node : nodes) {
    if (node.fits) node.score = std::ranges::lower_bound(order, place(node)) - order.begin();
  }
}

TieOrder::Place TieOrder::place(std::string_view node) const {
  if (!seed) return {0, node};
  // The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every
  // bit.
  std::uint64_t value = *seed ^ std::hash<std::string_view>()(node);
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11ebU;
  return {value ^ (value >> 31), node};
}

}  // namespace mgpu::extender
