// Random: any node, any card. The score of a node is a hash of the pod's tie_break_seed and the
// node's name, that of a card a hash of the seed and the card's index, each 0 .. kScoreMax. Every
// request for one pod gets the same scores.
#include <string_view>

#include "bench/trace/policies/measures.h"
#include "bench/trace/policies/policies.h"

namespace mgpu::trace {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11ebU;
  return value ^ (value >> 31);
}

Score score_of(std::uint64_t hash) {
  return static_cast<Score>(mixed(hash) % static_cast<std::uint64_t>(extender::kScoreMax + 1));
}

Score score_card(const PlacementContext& context, const Node&, const Card& card, const Share&,
                 const Share&) {
  return score_of(mixed(context.tie_break_seed) + static_cast<std::uint64_t>(card.index.value()));
}

Score score_node(const PlacementContext& context, const Node& node, const std::vector<CardHold>&) {
  std::uint64_t hash = mixed(context.tie_break_seed);
  for (const char c : std::string_view(node.name.str()))
    hash = mixed(hash + static_cast<unsigned char>(c) + 1);
  return score_of(hash);
}

}  // namespace

const Policy kRandomPolicy{.name = "random",
                           .score_card = score_card,
                           .score_node = score_node,
                           .ranks_pods_without_cards = true,
                           .per_pod = true};

}  // namespace mgpu::trace
