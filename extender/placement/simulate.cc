#include "extender/placement/simulate.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "extender/placement/limits.h"
#include "extender/placement/preemption/preemption.h"

namespace mgpu::extender {

void occupy(Node& node, const std::vector<CardHold>& pod, const NodeResources& resources) {
  for (const CardHold& hold : pod) {
    if (Card* card = node.find(hold.card)) card->used += hold.share;
  }
  node.resources_used += resources;
  ++node.pods_counted;
}

bool may_have_resources_for(const Node& node, const NodeResources& resources) {
  const bool known = !node.allocatable.zero() && node.pods_allowed > 0;
  return !known || has_resources_for(node, resources);
}

Simulation::Simulation(std::vector<Node> nodes, const GpuRequest& request,
                       const NodeResources& resources, const PolicyChoice& policy,
                       std::uint64_t seed, const PriceSnapshot* price_snapshot)
    : nodes_(std::move(nodes)),
      request_(request),
      resources_(resources),
      policy_(policy),
      seed_(seed),
      price_snapshot_(price_snapshot) {}

// kube-scheduler compares CPU, main memory and the number of pods before it calls the extender.
Scored Simulation::score(const Node& node, SearchBudget& budget) const {
  if (!may_have_resources_for(node, resources_)) return {};
  return score_of(node, context(), policy_, budget);
}

bool Simulation::begin(SearchBudget& budget, const std::function<bool()>& go_on) {
  scores_.assign(nodes_.size(), {});
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (budget.steps < kPlacementStepsMax || !go_on()) return false;
    scores_[i] = score(nodes_[i], budget);
  }
  return true;
}

// Returns the best node, of equal ones the first by name.
std::optional<std::size_t> Simulation::best() const {
  std::optional<std::size_t> best;
  std::vector<Scored> scores = scores_;
  make_comparable(scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].fits && (!best || better(scores[i], scores[*best]))) best = i;
  }
  return best;
}

std::optional<SimulatedPod> Simulation::place_next(SearchBudget& budget) {
  const auto chosen = best();
  if (!chosen) return std::nullopt;
  Node& node = nodes_[*chosen];
  auto result = place(node, context(), *policy_.card, budget);
  auto* placed = std::get_if<Placed>(&result);
  // The steps were enough for its score, and are not any more.
  if (placed == nullptr) return std::nullopt;
  occupy(node, holds(node, request_, placed->placement), resources_);
  scores_[*chosen] = score(node, budget);
  return SimulatedPod{*chosen, std::move(placed->placement)};
}

}  // namespace mgpu::extender
