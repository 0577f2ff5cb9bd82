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

// What a candidate frees for the pod: holds on cards that it cannot use count for nothing.
std::vector<Freed> freed_by(const Candidate& candidate, const Node& node, CardSet usable) {
  std::vector<Freed> freed;
  for (const CardHold& hold : candidate.holds) {
    const Card* card = node.find(hold.card);
    if (card == nullptr) continue;
    const auto position = static_cast<std::size_t>(card - node.cards.data());
    if (position >= kCardsPerNodeMax || (usable >> position & 1) == 0) continue;
    freed.push_back({position, hold.share});
  }
  return freed;
}

std::vector<Victim> victims_of(const Node& node, const GpuRequest& request,
                               std::span<const Candidate> candidates) {
  const CardSet usable = usable_cards(node, request.selector);
  std::vector<Victim> victims;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto freed = freed_by(candidates[i], node, usable);
    if (freed.empty()) continue;
    victims.push_back({.candidate = i,
                       .priority = candidates[i].priority,
                       .start_time = candidates[i].start_time,
                       .breaks_budget = candidates[i].breaks_budget,
                       .frees = std::move(freed)});
  }
  std::ranges::sort(victims, costs_less);
  return victims;
}

// One decision: which of the victims, ordered by cost, must go.
class Preemption {
 public:
  Preemption(const Node& node, const GpuRequest& request, std::vector<Victim> victims)
      : unchanged_(node, request), victims_(std::move(victims)) {}

  bool possible() { return without(victims_).fits(patience_).value_or(false); }

  std::vector<Victim> cheapest() {
    auto exact = search();
    return exact ? std::move(*exact) : reprieve();
  }

 private:
  using Chosen = std::optional<std::vector<Victim>>;
  static constexpr auto kHighest = std::numeric_limits<std::int32_t>::max();

  Trial without(std::span<const Victim> victims) const {
    Trial trial = unchanged_;
    for (const Victim& victim : victims) trial.evict(victim);
    return trial;
  }

  std::vector<Victim> up_to(std::int32_t priority, bool breaks_budget) const {
    std::vector<Victim> some;
    std::ranges::copy_if(victims_, std::back_inserter(some), [&](const Victim& victim) {
      return victim.priority <= priority && victim.breaks_budget == breaks_budget;
    });
    return some;
  }

  // The fewest violations when nobody above `priority` goes and all others may. Empty: none.
  std::optional<std::size_t> fewest_violations(std::int32_t priority, std::size_t most) {
    const auto breaking = up_to(priority, true);
    const auto found = choose({without(up_to(priority, false)), breaking, steps_}, {most, most});
    return found ? std::optional(found->size()) : std::nullopt;
  }

  std::optional<std::vector<std::size_t>> choose(VictimSearch search,
                                                 const VictimSearch::Bounds& bounds) {
    auto found = search.fewest(bounds);
    known_ = known_ && (found || !search.out_of_steps());
    return found;
  }

  // The lowest highest priority with which no more than `violations` are needed.
  std::optional<std::int32_t> lowest_priority(std::size_t violations) {
    std::set<std::int32_t> priorities;
    for (const Victim& victim : victims_) priorities.insert(victim.priority);
    for (const std::int32_t priority : priorities) {
      const auto needed = fewest_violations(priority, violations);
      if (!known_) return std::nullopt;
      if (needed) return priority;
    }
    return std::nullopt;
  }

  // Empty: the steps ran out.
  Chosen search() {
    const auto violations = fewest_violations(kHighest, victims_.size());
    if (!violations || !known_) return std::nullopt;
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

  // All go; then the dearest first, each who is not needed stays.
  std::vector<Victim> reprieve() {
    Trial trial = without(victims_);
    std::vector<Victim> gone;
    for (auto victim = victims_.rbegin(); victim != victims_.rend(); ++victim) {
      trial.restore(*victim);
      if (trial.fits(patience_).value_or(false)) continue;
      trial.evict(*victim);
      gone.push_back(*victim);
    }
    return gone;
  }

  const Trial unchanged_;
  const std::vector<Victim> victims_;
  SearchBudget steps_{kPlacementStepsMax};     // of the exact search
  SearchBudget patience_{kPlacementStepsMax};  // of everything else
  bool known_ = true;                          // no search has ended without an answer
};

}  // namespace

std::optional<Eviction> choose_victims(const Node& node, const GpuRequest& request,
                                       std::span<const Candidate> candidates) {
  SearchBudget budget{kPlacementStepsMax};
  if (!why_not(node, request, budget)) return Eviction{};
  auto victims = victims_of(node, request, candidates);
  if (victims.empty()) return std::nullopt;
  Preemption preemption(node, request, std::move(victims));
  if (!preemption.possible()) return std::nullopt;
  Eviction eviction;
  for (const Victim& victim : preemption.cheapest()) {
    eviction.victims.push_back(victim.candidate);
    eviction.budget_violations += victim.breaks_budget;
  }
  std::ranges::sort(eviction.victims);
  return eviction;
}

}  // namespace mgpu::extender
