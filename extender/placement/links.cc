// Both searches visit the sets in the order of their positions in `candidates`, so that the first
// of equal sets is the one with the lower positions, and leave a branch that cannot become better:
// the worst link of a set never becomes better with another card.
#include "extender/placement/links.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/contract/limits.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

// Bits for the numbers of pairs: a node has fewer than 2^11.
constexpr int kPairBits = 11;
// Bits for all NVLinks of all pairs.
constexpr int kNvlinkBits = kPairBits + 6;
static_assert(kCardsPerNodeMax * (kCardsPerNodeMax - 1) / 2 < 1U << kPairBits);
static_assert(kNvlinksMax < 1 << 6);

// What one pair adds to the quality of a set, without the worst link.
LinkQuality sum_of(Link link) {
  if (const int count = nvlink_count(link); count > 0)
    return static_cast<LinkQuality>(count) << (2 * kPairBits);
  if (link == Link::kSwitch) return LinkQuality{1} << kPairBits;
  return link == Link::kSameNuma ? 1 : 0;
}

LinkQuality quality_of(Link worst, LinkQuality sum) {
  return (static_cast<LinkQuality>(worst) << (2 * kPairBits + kNvlinkBits)) | sum;
}

constexpr Link kBestLink = nvlinks(kNvlinksMax);

// A set of cards that is being built.
struct Partial {
  Link worst = kBestLink;
  LinkQuality sum = 0;
};

class SetSearch {
 public:
  SetSearch(const CardLinks& links, std::span<const LinkCandidate> candidates, std::size_t count,
            bool linked)
      : links_(links), candidates_(candidates), count_(count), linked_(linked) {
    MGPU_CHECK(count > 0 && count <= candidates.size() && count <= kCardsPerNodeMax,
               "a set has as many cards as there are candidates at most");
    // The cards that every set of the highest scores has.
    while (candidates[fixed_].score > candidates[count - 1].score) ++fixed_;
  }

  // `any`: the first set that is found will do.
  ConnectedSet run(bool any) {
    any_ = any;
    add(0, 0, {});
    if (!within_bound_ && !linked_) grow_greedily();
    ConnectedSet found{.cards = 0, .exact = within_bound_, .steps = steps_};
    for (std::size_t i = 0; found_ && i < count_; ++i)
      found.cards |= CardSet{1} << candidates_[best_[i]].card;
    return found;
  }

 private:
  using Chosen = std::array<std::uint8_t, kCardsPerNodeMax>;  // positions in `candidates_`

  Link between(std::size_t a, std::size_t b) const {
    return links_.between(candidates_[a].card, candidates_[b].card);
  }
  bool spend(std::size_t steps) {
    steps_ += static_cast<std::uint32_t>(steps);
    if (steps_ > kLinkStepsMax) within_bound_ = false;
    return within_bound_;
  }
  Partial with(Partial set, std::size_t size, std::size_t candidate) const {
    for (std::size_t i = 0; i < size; ++i) {
      const Link link = between(chosen_[i], candidate);
      set.worst = std::min(set.worst, link);
      set.sum += sum_of(link);
    }
    return set;
  }
  bool scores_are(std::size_t size, auto compare) const {
    const auto score = [&](std::uint8_t at) { return candidates_[at].score; };
    return std::lexicographical_compare(
        chosen_.begin(), chosen_.begin() + static_cast<std::ptrdiff_t>(size), best_.begin(),
        best_.begin() + static_cast<std::ptrdiff_t>(size),
        [&](std::uint8_t a, std::uint8_t b) { return compare(score(a), score(b)); });
  }

  void keep(const Partial& set) {
    const LinkQuality quality = quality_of(set.worst, set.sum);
    const bool higher = found_ && linked_ && scores_are(count_, std::greater<>());
    if (found_ && !higher && quality <= quality_) return;
    found_ = true;
    best_ = chosen_;
    quality_ = quality;
  }

  // Whether the set, which has `size` cards, can become better than the best one.
  bool may_become_better(const Partial& set, std::size_t size) const {
    if (linked_ && (set.worst < Link::kNvlink || (found_ && scores_are(size, std::less<>()))))
      return false;
    if (!found_ || linked_) return true;
    return quality_of(set.worst, ~LinkQuality{0} >> (64 - 2 * kPairBits - kNvlinkBits)) > quality_;
  }

  void add(std::size_t size, std::size_t from, const Partial& set) {
    if (size == count_) return keep(set);
    for (std::size_t at = from; at + (count_ - size) <= candidates_.size(); ++at) {
      if (!linked_) {
        if (size < fixed_ && at > size) return;
        if (candidates_[at].score < candidates_[count_ - 1].score) return;
      }
      if (!spend(1 + size / kLinksPerStep)) return;
      const Partial grown = with(set, size, at);
      chosen_[size] = static_cast<std::uint8_t>(at);
      if (may_become_better(grown, size + 1)) add(size + 1, at + 1, grown);
      if (!within_bound_ || (any_ && found_)) return;
    }
  }

  // Beyond the bound. O(candidates^3).
  void grow_greedily() {
    std::size_t end = count_;
    while (end < candidates_.size() && candidates_[end].score == candidates_[count_ - 1].score)
      ++end;
    const std::size_t starts = fixed_ > 0 ? 1 : end;
    for (std::size_t start = 0; start < starts; ++start) {
      Partial set;
      std::vector<bool> used(end, false);
      for (std::size_t size = 0; size < count_; ++size) {
        // The one that every set has, or that this one begins with, or else the best.
        std::size_t next = size < fixed_ ? size : size == 0 ? start : end;
        Partial grown = next < end ? with(set, size, next) : Partial();
        for (std::size_t at = 0; at < end && size >= std::max<std::size_t>(fixed_, 1); ++at) {
          if (used[at]) continue;
          const Partial other = with(set, size, at);
          const bool better =
              quality_of(other.worst, other.sum) > quality_of(grown.worst, grown.sum);
          if (next < end && !better) continue;
          next = at;
          grown = other;
        }
        chosen_[size] = static_cast<std::uint8_t>(next);
        used[next] = true;
        set = grown;
      }
      keep(set);
      steps_ += static_cast<std::uint32_t>(end * count_ * count_ / (2 * kLinksPerStep));
    }
  }

  const CardLinks& links_;
  const std::span<const LinkCandidate> candidates_;
  const std::size_t count_;
  const bool linked_;
  std::size_t fixed_ = 0;
  Chosen chosen_{};
  Chosen best_{};
  bool any_ = false;
  bool found_ = false;
  LinkQuality quality_ = 0;
  bool within_bound_ = true;
  std::uint32_t steps_ = 0;
};

}  // namespace

LinkQuality link_quality(const CardLinks& links, CardSet cards) {
  MGPU_CHECK(std::popcount(cards) > 1, "a link has two ends");
  Partial set;
  for (CardSet left = cards; left != 0; left &= left - 1) {
    for (CardSet others = left & (left - 1); others != 0; others &= others - 1) {
      const Link link = links.between(static_cast<std::size_t>(std::countr_zero(left)),
                                      static_cast<std::size_t>(std::countr_zero(others)));
      set.worst = std::min(set.worst, link);
      set.sum += sum_of(link);
    }
  }
  return quality_of(set.worst, set.sum);
}

std::optional<Link> worst_link(const Node& node, std::span<const CardIndex> cards) {
  if (cards.size() < 2 || node.links == nullptr) return std::nullopt;
  Link worst = kBestLink;
  for (std::size_t a = 0; a < cards.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Card* const one = node.find(cards[a]);
      const Card* const other = node.find(cards[b]);
      if (one == nullptr || other == nullptr) return std::nullopt;
      worst =
          std::min(worst, node.links->between(static_cast<std::size_t>(one - node.cards.data()),
                                              static_cast<std::size_t>(other - node.cards.data())));
    }
  }
  return worst;
}

ConnectedSet best_connected(const CardLinks& links, std::span<const LinkCandidate> candidates,
                            std::size_t count) {
  return SetSearch(links, candidates, count, false).run(false);
}

ConnectedSet best_linked(const CardLinks& links, std::span<const LinkCandidate> candidates,
                         std::size_t count) {
  return SetSearch(links, candidates, count, true).run(false);
}

ConnectedSet find_linked(const Node& node, CardSet cards, std::size_t count) {
  if (std::cmp_less(std::popcount(cards), count)) return {};
  std::array<LinkCandidate, kCardsPerNodeMax> candidates;
  std::size_t found = 0;
  for (CardSet left = cards; left != 0; left &= left - 1)
    candidates[found++].card = static_cast<std::size_t>(std::countr_zero(left));
  return SetSearch(*node.links, std::span(candidates).first(found), count, true).run(true);
}

LinkRule link_rule(const Node& node, LinkPreference preference, const ContainerRequest& container) {
  if (container.cards < 2 || preference == LinkPreference::kIgnored) return LinkRule::kNone;
  const bool required = preference == LinkPreference::kRequired;
  if (node.links == nullptr) return required ? LinkRule::kNoCards : LinkRule::kNone;
  if (!node.links->uniform()) return required ? LinkRule::kLinked : LinkRule::kBest;
  const bool linked = node.links->cards() > 1 && node.links->between(0, 1) >= Link::kNvlink;
  return required && !linked ? LinkRule::kNoCards : LinkRule::kNone;
}

}  // namespace mgpu::extender
