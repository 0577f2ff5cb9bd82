// How good a node is for a pod. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "extender/placement/cluster.h"
#include "extender/placement/context.h"
#include "extender/placement/place.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

struct Scored {
  bool fits = false;  // the other members are only meaningful if it is true
  bool beside_expected = true;
  // number_of the node policy of the node's profile; 0 if that of the pod or of the extender gave
  // the score. Scores of different policies cannot be compared: nodes of different policies are
  // compared by `common`, which is the score by the policy of the extender (make_comparable).
  std::uint8_t profile_policy = 0;
  std::int32_t common = 0;
  Score score = 0;
  bool operator==(const Scored&) const = default;
};
static_assert(sizeof(Scored) == 16, "there is one for each node and request in the cache");
// Limited to the range of the type.
std::int32_t common_score(Score score);

Scored score_of(const Node& node, const PlacementContext& context, const PolicyChoice& policy,
                SearchBudget& budget);

// Replaces the scores of several policies by one order: first the policies, by the best node that
// each has in the order of the extender's own policy, then the nodes of a policy by their scores.
// So the extender's policy chooses among the groups of nodes, and the policy of a group within it.
// Scores of one policy stay as they are.
void make_comparable(std::vector<Scored>& nodes);

// A node that fits beside the expected placements of other pods is better than one that does not,
// then the score decides. REQUIRES: both fit, and their scores can be compared.
inline bool better(const Scored& a, const Scored& b) {
  if (a.beside_expected != b.beside_expected) return a.beside_expected;
  return a.score > b.score;
}

// The order of equally good nodes. By the name and a number of the pod, so that a node on which
// pods fail is not the first for every pod that is made in their place; without a number by the
// name.
struct TieOrder {
  std::optional<std::uint64_t> seed;  // PlacementContext::tie_break_seed
  using Place = std::pair<std::uint64_t, std::string_view>;
  Place place(std::string_view node) const;
};

}  // namespace mgpu::extender
