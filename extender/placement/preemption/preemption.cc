#include "extender/placement/preemption/preemption.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "common/contract/limits.h"
#include "extender/placement/fit.h"
#include "extender/placement/limits.h"
#include "extender/placement/preemption/victim_search.h"

namespace mgpu::extender {

namespace {

// The candidates that free something for the pod, by cost. Holds on cards that the pod cannot use
// do not count. With `needs_resources`, every candidate frees a place for a pod at least.
std::vector<Victim> victims_of(const Node& node, const GpuRequest& request,
                               std::span<const Candidate> candidates, bool needs_resources) {
  const CardSet usable = usable_cards(node, request.selector);
  std::vector<Victim> victims;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    Victim victim{i, candidate.priority, candidate.start_time, candidate.breaks_budget, {}};
    if (needs_resources) victim.resources = candidate.resources;
    for (const CardHold& hold : candidate.holds) {
      const Card* card = node.find(hold.card);
      if (card == nullptr) continue;
      const auto position = static_cast<std::size_t>(card - node.cards.data());
      if (position < kCardsPerNodeMax && (usable >> position & 1) != 0)
        victim.frees.push_back({position, hold.share});
    }
    if (needs_resources || !victim.frees.empty()) victims.push_back(std::move(victim));
  }
  std::ranges::sort(victims, costs_less);
  return victims;
}

// One decision: which of the victims, ordered by cost, are evicted.
class Preemption {
 public:
  Preemption(EvictedNode unchanged, std::vector<Victim> victims)
      : unchanged_(std::move(unchanged)), victims_(std::move(victims)) {}

  // Empty if the pod does not fit even without all of them.
  std::optional<std::vector<Victim>> cheapest() {
    if (!without(victims_).fits(other_steps_).value_or(false)) return std::nullopt;
    auto exact = search();
    return exact ? std::move(exact) : reprieve();
  }

  std::uint32_t steps_taken() const {
    return 2 * kPlacementStepsMax - steps_.steps - other_steps_.steps;
  }

 private:
  static constexpr auto kHighest = std::numeric_limits<std::int32_t>::max();

  EvictedNode without(std::span<const Victim> victims) const {
    EvictedNode node = unchanged_;
    for (const Victim& victim : victims) node.evict(victim);
    return node;
  }

  std::vector<Victim> up_to(std::int32_t priority, bool breaks_budget) const {
    std::vector<Victim> some;
    std::ranges::copy_if(victims_, std::back_inserter(some), [&](const Victim& victim) {
      return victim.priority <= priority && victim.breaks_budget == breaks_budget;
    });
    return some;
  }

  // The fewest violations if all victims up to `priority` may be evicted. Empty if the pod does not
  // fit then, or needs more than `most`.
  std::optional<std::size_t> fewest_violations(std::int32_t priority, std::size_t most) {
    const auto breaking = up_to(priority, true);
    const auto found = choose({without(up_to(priority, false)), breaking, steps_}, {most, most});
    return found ? std::optional(found->size()) : std::nullopt;
  }

  std::optional<std::vector<std::size_t>> choose(VictimSearch search,
                                                 const VictimSearch::Bounds& bounds) {
    auto found = search.fewest(bounds);
    complete_ = complete_ && (found || !search.out_of_steps());
    return found;
  }

  // The lowest highest priority of victims with which `violations` are enough.
  std::optional<std::int32_t> lowest_priority(std::size_t violations) {
    std::set<std::int32_t> priorities;
    for (const Victim& victim : victims_) priorities.insert(victim.priority);
    for (const std::int32_t priority : priorities) {
      const auto needed = fewest_violations(priority, violations);
      if (!complete_) return std::nullopt;
      if (needed) return priority;
    }
    return std::nullopt;
  }

  // Empty if the steps ran out.
  std::optional<std::vector<Victim>> search() {
    const auto violations = fewest_violations(kHighest, victims_.size());
    if (!violations || !complete_) return std::nullopt;
    const auto priority = lowest_priority(*violations);
    if (!priority) return std::nullopt;
    std::vector<Victim> among = up_to(*priority, false);
    std::ranges::copy(up_to(*priority, true), std::back_inserter(among));
    const auto found = choose({unchanged_, among, steps_}, {among.size(), *violations});
    if (!found) return std::nullopt;
    std::vector<Victim> chosen;
    for (const std::size_t victim : *found) chosen.push_back(among[victim]);
    return chosen;
  }

  // As kube-scheduler: all victims are evicted; then, from the most expensive one on, each that is
  // not needed is restored.
  std::vector<Victim> reprieve() {
    EvictedNode node = without(victims_);
    std::vector<Victim> evicted;
    for (auto victim = victims_.rbegin(); victim != victims_.rend(); ++victim) {
      node.restore(*victim);
      if (node.fits(other_steps_).value_or(false)) continue;
      node.evict(*victim);
      evicted.push_back(*victim);
    }
    return evicted;
  }

  const EvictedNode unchanged_;
  const std::vector<Victim> victims_;
  SearchBudget steps_{kPlacementStepsMax};        // for the exact search
  SearchBudget other_steps_{kPlacementStepsMax};  // for all else
  bool complete_ = true;                          // no search has run out of steps
};

}  // namespace

std::optional<Eviction> choose_victims(const Node& node, const GpuRequest& request,
                                       std::span<const Candidate> candidates,
                                       const std::optional<NodeResources>& resources,
                                       SearchBudget& budget) {
  SearchBudget steps{kPlacementStepsMax};
  EvictedNode unchanged(node, request, resources);
  const bool fits = unchanged.fits(steps).value_or(false);
  budget.spend(kPlacementStepsMax - steps.steps);
  if (fits) return Eviction{};
  const bool needs_resources = resources && !has_resources_for(node, *resources);
  auto victims = victims_of(node, request, candidates, needs_resources);
  if (victims.empty()) return std::nullopt;
  Preemption preemption(std::move(unchanged), std::move(victims));
  const auto cheapest = preemption.cheapest();
  budget.spend(preemption.steps_taken());
  if (!cheapest) return std::nullopt;
  Eviction eviction;
  for (const Victim& victim : *cheapest) {
    eviction.victims.push_back(victim.candidate);
    eviction.budget_violations += victim.breaks_budget;
  }
  std::ranges::sort(eviction.victims);
  return eviction;
}

bool has_resources_for(const Node& node, const NodeResources& resources) {
  return resources.fits_in(node.resources_left()) && node.pods_counted < node.pods_allowed;
}

void evict(Node& node, const Candidate& pod) {
  for (const CardHold& hold : pod.holds) {
    Card* card = node.find(hold.card);
    if (card != nullptr) card->used = room_in(card->used, hold.share);
  }
  node.resources_used = room_in(node.resources_used, pod.resources);
  --node.pods_counted;
}

}  // namespace mgpu::extender
