#include "extender/verbs/ranking.h"

#include <algorithm>

namespace mgpu::extender {

Ranking::Ranking(const VerbContext& context, std::span<const std::string_view> names,
                 const PodRequest& pod, const PriceSnapshot* price_snapshot, Instant now)
    : names_(names),
      nodes_(context.ledger.decisions().score(names, pod.context(price_snapshot), pod.policy, now,
                                              pod.pod)),
      ties_(pod.ties) {
  make_comparable(nodes_);
  if (context.answered != nullptr) put_last(context.answered->avoided(pod.pod.uid, now));
}

// As nodes on which other pods are expected.
void Ranking::put_last(const std::vector<std::string>& avoided) {
  if (avoided.empty()) return;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (std::ranges::find(avoided, names_[i]) != avoided.end()) nodes_[i].beside_expected = false;
}

std::size_t Ranking::fitting() const {
  return static_cast<std::size_t>(std::ranges::count(nodes_, true, &Scored::fits));
}

bool Ranking::before(std::size_t a, std::size_t b) const {
  if (better(nodes_[b], nodes_[a])) return false;
  return better(nodes_[a], nodes_[b]) || ties_.place(names_[a]) < ties_.place(names_[b]);
}

std::optional<std::size_t> Ranking::best() const {
  std::optional<std::size_t> best;
  TieOrder::Place place_of_best;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].fits || (best && better(nodes_[*best], nodes_[i]))) continue;
    const auto place = ties_.place(names_[i]);
    if (best && !better(nodes_[i], nodes_[*best]) && place_of_best < place) continue;
    best = i;
    place_of_best = place;
  }
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
