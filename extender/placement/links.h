// Which cards of a node are best connected with each other. Pure.
//
// The better connected one of two sets of cards is that
//   1. whose worst link is better, since programs on several cards wait for the slowest link,
//   2. then that with more NVLinks in sum,
//   3. then that with more pairs of cards below one PCIe host bridge,
//   4. then that with more pairs on one NUMA node.
// If sets are equal, the one that begins with the lower positions is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/contract/card_links.h"
#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/fit.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {

// Higher is better; of sets of as many cards.
using LinkQuality = std::uint64_t;
// REQUIRES: the set has two cards or more.
LinkQuality link_quality(const CardLinks& links, CardSet cards);

// The worst link between two of these cards of the node; none if there is one card, links are not
// known, or the node does not have one of the cards.
std::optional<Link> worst_link(const Node& node, std::span<const CardIndex> cards);

// A card that a container could have.
struct LinkCandidate {
  Score score = 0;  // higher is better
  std::size_t card = 0;
};

struct ConnectedSet {
  CardSet cards = 0;        // empty: there is none, or none was found
  bool exact = true;        // the search ended within its bound
  std::uint32_t steps = 0;  // that it took (limits.h)
};

// The best connected of the sets of `count` cards with the highest scores. Exact within
// kLinkStepsMax, which suffices for 16 cards; beyond that the best of those seen and of a greedy
// choice, which begins with each card and adds the one that makes the best set. `candidates` are
// sorted by score, then by position. REQUIRES: 0 < count <= candidates.size().
ConnectedSet best_connected(const CardLinks& links, std::span<const LinkCandidate> candidates,
                            std::size_t count);

// Returns, of the sets of `count` cards in which each two have NVLink, those with the highest
// scores, which are compared one by one from the highest on; of these the best connected.
ConnectedSet best_linked(const CardLinks& links, std::span<const LinkCandidate> candidates,
                         std::size_t count);

// Whether so many of the cards have NVLink, each two of them; one card always has. Not exact: it is
// not known.
ConnectedSet find_linked(const Node& node, CardSet cards, std::size_t count);

// How the links of a node bear on the cards of a container.
enum class LinkRule : std::uint8_t {
  kNone,     // not at all: the pod ignores them, it has one card, or all sets of cards are equal
  kBest,     // the best connected of the sets that are equally good otherwise
  kLinked,   // only sets in which each two cards have NVLink
  kNoCards,  // the node has no two cards with NVLink, or they are not known
};
LinkRule link_rule(const Node& node, LinkPreference preference, const ContainerRequest& container);

}  // namespace mgpu::extender
