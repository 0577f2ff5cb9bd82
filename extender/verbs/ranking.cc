#include "extender/verbs/ranking.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace mgpu::extender {

namespace {

// Replaces the scores of several policies by one order: first the policies, by the best node that
// each has in the order of the extender's own policy, then the nodes of a policy by their scores.
// So the extender's policy chooses among the groups of nodes, and the policy of a group within it.
void make_comparable(std::vector<Scored>& nodes) {
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
  for (Scored& node : nodes) {
    if (node.fits) node.score = std::ranges::lower_bound(order, place(node)) - order.begin();
  }
}

}  // namespace

Ranking::Ranking(Ledger& ledger, std::span<const std::string_view> names, const PodRequest& pod,
                 const PriceSnapshot* price_snapshot, Instant now)
    : names_(names),
      nodes_(ledger.score(names, pod.context(price_snapshot), pod.policy, now, pod.pod)) {
  const auto by_profile = [](const Scored& node) { return node.fits && node.profile_policy != 0; };
  if (std::ranges::any_of(nodes_, by_profile)) make_comparable(nodes_);
}

std::size_t Ranking::fitting() const {
  return static_cast<std::size_t>(std::ranges::count(nodes_, true, &Scored::fits));
}

bool Ranking::better(const Scored& a, const Scored& b) {
  if (a.beside_expected != b.beside_expected) return a.beside_expected;
  return a.score > b.score;
}

bool Ranking::before(std::size_t a, std::size_t b) const {
  if (better(nodes_[a], nodes_[b])) return true;
  return !better(nodes_[b], nodes_[a]) && names_[a] < names_[b];
}

std::optional<std::size_t> Ranking::best() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].fits && (!best || before(i, *best))) best = i;
  return best;
}

std::vector<std::size_t> Ranking::best(std::size_t count) const {
  if (count == 1) {
    const auto first = best();
    return first ? std::vector{*first} : std::vector<std::size_t>();
  }
  std::vector<std::size_t> best;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].fits) best.push_back(i);
  if (best.size() <= count) return best;
  const auto end = best.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(best.begin(), end, best.end(),
                   [this](std::size_t a, std::size_t b) { return before(a, b); });
  best.erase(end, best.end());
  std::ranges::sort(best);
  return best;
}

}  // namespace mgpu::extender
