// Policies: which of the nodes that fit, and which of a node's cards that fit, is best. One policy
// is one file in policies/ and one line in the table of policy.cc.
//
// "binpack" means binpack for nodes and for cards; "spread/binpack" spread for nodes and binpack
// for cards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/holds.h"

namespace mgpu::extender {

// Higher is better; may be negative. Comparable between the nodes, or the cards, of one decision.
using Score = std::int64_t;
// What policies that weigh parts of a whole give at most.
inline constexpr Score kScoreMax = 1'000'000;

struct Policy {
  std::string_view name;
  // Of putting `share` on `card` of `node`, which has room for it. `taken` is what counts as taken
  // already.
  Score (*score_card)(const PlacementContext& context, const Node& node, const Card& card,
                      const Share& taken, const Share& share);
  // Of putting a pod that holds `pod` on `node`. Expected shares count as taken.
  Score (*score_node)(const PlacementContext& context, const Node& node,
                      const std::vector<CardHold>& pod);
  // Whether it has an opinion on pods that ask for no cards, too; `pod` is empty then.
  bool ranks_pods_without_cards = false;
  // Such an opinion only where the price snapshot has prices.
  bool needs_prices = false;
  // Whether it goes by PlacementContext::tie_break_seed, so that equal requests of two pods may get
  // other answers.
  bool per_pod = false;
};

struct PolicyChoice {
  const Policy* node = nullptr;
  const Policy* card = nullptr;
  bool operator==(const PolicyChoice&) const = default;
};

// Errors: an unknown name; the sentence lists the known ones. REQUIRES nothing of `name`.
Result<PolicyChoice> find_policy(std::string_view name);

std::vector<std::string_view> policy_names();

inline constexpr std::string_view kDefaultPolicy = "equilibrium";

}  // namespace mgpu::extender
