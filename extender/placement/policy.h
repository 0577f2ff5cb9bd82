// A policy chooses the best of the feasible nodes, and the best of a node's feasible cards. Each
// policy is one file in policies/, one line in policies.h and one in the table of policy.cc.
//
// The name "binpack" is binpack for nodes and for cards; "spread/binpack" is spread for nodes and
// binpack for cards.
#pragma once

#include <cstdint>
#include <span>
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
// The highest score of policies that score fractions.
inline constexpr Score kScoreMax = 1'000'000;

// How nodes and cards are scored. Of the node, scores depend on nothing that same_shape (shape.h)
// does not compare.
struct Policy {
  std::string_view name;
  // The score of placing `share` on `card` of `node`, which has room for it. `taken` is what
  // already counts as taken.
  Score (*score_card)(const PlacementContext& context, const Node& node, const Card& card,
                      const Share& taken, const Share& share);
  // The score of a pod that would hold the shares `pod` of the cards of `node`. Expected shares
  // count as taken.
  Score (*score_node)(const PlacementContext& context, const Node& node,
                      const std::vector<CardHold>& pod);
  // The steps (limits.h) that score_card takes for a card of this node; null means 1. score_node
  // takes up to twice as many.
  std::uint32_t (*steps)(const PlacementContext& context, const Node& node) = nullptr;
  // Whether it scores nodes for pods that request no cards, too; `pod` is empty then.
  bool ranks_pods_without_cards = false;
  // Whether it does that only if the price snapshot has prices.
  bool needs_prices = false;
  // Whether it uses PlacementContext::tie_break_seed, so that equal requests of two pods, and nodes
  // of the same shape, may get different scores.
  bool per_pod = false;
};

// The steps of one call of score_card, and of score_node.
std::uint32_t card_steps(const Policy& policy, const PlacementContext& context, const Node& node);
std::uint32_t node_steps(const Policy& policy, const PlacementContext& context, const Node& node);

struct PolicyChoice {
  const Policy* node = nullptr;
  const Policy* card = nullptr;
  bool operator==(const PolicyChoice&) const = default;
};

using Policies = std::span<const Policy* const>;

// Two of `known`. Errors: an unknown name; the sentence lists the known ones.
Result<PolicyChoice> find_policy(std::string_view name, Policies known);
// Policies of the extender.
Result<PolicyChoice> find_policy(std::string_view name);

// The policy that applies to the request on this node: that of the pod, else that of the node's
// profile, else that of the extender. `choice` is that of the pod or of the extender.
PolicyChoice policy_on(const Node& node, const GpuRequest& request, const PolicyChoice& choice);
// Whether the profile of the node decides.
bool follows_profile(const Node& node, const GpuRequest& request);

// The position of a policy of the extender in its table, from 1.
std::uint8_t number_of(const Policy& policy);

std::vector<std::string_view> policy_names();

inline constexpr std::string_view kDefaultPolicy = "equilibrium";

}  // namespace mgpu::extender
