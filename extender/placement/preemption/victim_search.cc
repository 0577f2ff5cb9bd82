// An exact search over sets of victims: first the empty set, then all sets of one victim, of two,
// and so on, so that the first size at which the pod fits is the smallest. Within a size the
// victims are tried in the order of costs_less, the cheapest first, and the search continues to the
// end of that size for a set of lower cost.
//
// There are 2^n sets. Four rules skip most of them without losing the result:
//   - Upper bound (may_fit_with): if each missing victim freed, of every card, the most that any
//     later one frees, and the pod still did not fit, then no extension of this set makes it fit.
//     This costs one check of fit and skips whole branches.
//   - Cost (worse_than_best): even with the lowest remaining priority for each missing victim, the
//     sum is above that of the best set found.
//   - Dominance (dominated): an earlier victim of no higher priority that frees at least as much of
//     every card is taken first; exchanging the two gives a set that is as good or better.
//   - Violations: victims that break a budget are last, so that the first one that may not be taken
//     ends the loop.
//
// A check of fit is why_not, which for pods of one container takes time linear in the cards. The
// search is bounded by SearchBudget; out_of_steps is whether the steps ran out.
#include "extender/placement/preemption/victim_search.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "extender/placement/limits.h"
#include "extender/placement/preemption/preemption.h"

namespace mgpu::extender {

namespace {

// Text in the order of time; a pod that has not started is the latest.
std::string_view start_of(const Victim& victim) {
  return victim.start_time.empty() ? std::string_view("~") : std::string_view(victim.start_time);
}

bool frees_at_least(const Victim& a, const Victim& b) {
  if (!b.resources.fits_in(a.resources)) return false;
  auto of_a = a.frees.begin();
  for (const Freed& wanted : b.frees) {
    while (of_a != a.frees.end() && of_a->card < wanted.card) ++of_a;
    if (of_a == a.frees.end() || of_a->card != wanted.card) return false;
    if (!wanted.share.fits_in(of_a->share)) return false;
  }
  return true;
}

// At most 2^60, which is more than any node has: the requests of a pod may be any numbers.
std::int64_t multiplied(std::int64_t amount, std::int64_t times) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return std::min(amount, kMost / times) * times;
}

// The maximum of both, for each card.
void raise(std::vector<Freed>& most, const std::vector<Freed>& frees) {
  for (const Freed& freed : frees) {
    auto at = std::ranges::lower_bound(most, freed.card, {}, &Freed::card);
    if (at == most.end() || at->card != freed.card) at = most.insert(at, {freed.card, Share{}});
    at->share = max_of(at->share, freed.share);
  }
}

}  // namespace

bool costs_less(const Victim& a, const Victim& b) {
  return std::tuple(a.breaks_budget, a.priority, start_of(b), a.candidate) <
         std::tuple(b.breaks_budget, b.priority, start_of(a), b.candidate);
}

EvictedNode::EvictedNode(const Node& node, const GpuRequest& request,
                         const std::optional<NodeResources>& resources)
    : node_(node),
      request_(request),
      resources_(resources),
      resources_used_(node.resources_used),
      pods_counted_(node.pods_counted),
      freed_(node.cards.size()) {
  for (const Card& card : node.cards) used_.push_back(card.used);
}

void EvictedNode::evict(const Victim& victim) {
  for (const auto& [card, share] : victim.frees) {
    freed_[card] += share;
    refresh(card);
  }
  resources_freed_ += victim.resources;
  pods_freed_ += victim.pods;
  refresh_host();
}

void EvictedNode::restore(const Victim& victim) {
  for (const auto& [card, share] : victim.frees) {
    freed_[card] -= share;
    refresh(card);
  }
  resources_freed_ -= victim.resources;
  pods_freed_ -= victim.pods;
  refresh_host();
}

void EvictedNode::refresh(std::size_t card) {
  node_.cards[card].used = room_in(used_[card], freed_[card]);
}

void EvictedNode::refresh_host() {
  node_.resources_used = room_in(resources_used_, resources_freed_);
  node_.pods_counted = pods_counted_ - pods_freed_;
}

std::optional<bool> EvictedNode::fits(SearchBudget& budget) const {
  if (resources_ && !has_resources_for(node_, *resources_)) return false;
  const auto reason = why_not(node_, request_, budget);
  if (reason == Reason::kSearchBound) return std::nullopt;
  return !reason;
}

VictimSearch::VictimSearch(EvictedNode node, std::span<const Victim> victims, SearchBudget& budget)
    : node_(std::move(node)), victims_(victims), budget_(budget), is_chosen_(victims.size()) {
  find_dominating_victims();
  sum_up_tails();
}

// O(victims^2 * cards), once.
void VictimSearch::find_dominating_victims() {
  dominating_.resize(victims_.size());
  for (std::size_t i = 0; i < victims_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // A victim that breaks no budget is earlier than one that breaks one, whatever their
      // priorities.
      if (victims_[j].priority > victims_[i].priority) continue;
      if (frees_at_least(victims_[j], victims_[i])) dominating_[i].push_back(j);
    }
  }
}

// From the last victim to the first, so that each tail is the one after it and one victim more.
void VictimSearch::sum_up_tails() {
  tails_.resize(victims_.size() + 1);
  tails_.back().lowest_priority = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = victims_.size(); i-- > 0;) {
    tails_[i] = tails_[i + 1];
    raise(tails_[i].most.frees, victims_[i].frees);
    tails_[i].most.resources = max_of(tails_[i].most.resources, victims_[i].resources);
    tails_[i].lowest_priority = std::min(tails_[i].lowest_priority, victims_[i].priority);
  }
}

// Takes one step more than why_not, so that no check is free.
bool VictimSearch::fits() {
  if (budget_.steps == 0) out_of_steps_ = true;
  if (out_of_steps_) return false;
  --budget_.steps;
  const auto result = node_.fits(budget_);
  if (!result) out_of_steps_ = true;
  return result.value_or(false);
}

// An upper bound: as if each of the missing victims freed the most of every card.
bool VictimSearch::may_fit_with(std::size_t missing, std::size_t from) {
  Victim most = tails_[from].most;
  const auto times = static_cast<std::int64_t>(missing);
  for (auto& [card, share] : most.frees)
    share = {Percent(share.core.value() * times), MiB(share.memory.value() * times)};
  most.resources = {MilliCpu(multiplied(most.resources.cpu.value(), times)),
                    MiB(multiplied(most.resources.memory.value(), times))};
  most.pods = times;
  node_.evict(most);
  const bool may = fits();
  node_.restore(most);
  return may;
}

bool VictimSearch::worse_than_best(std::size_t missing, std::size_t from) const {
  if (!best_) return false;
  std::int64_t least = tails_[from].lowest_priority * static_cast<std::int64_t>(missing);
  for (const std::size_t victim : chosen_) least += victims_[victim].priority;
  return least > best_cost_.priorities;
}

// A set with `victim` and without its dominator is not better than the set with the two exchanged.
bool VictimSearch::dominated(std::size_t victim) const {
  return std::ranges::any_of(dominating_[victim],
                             [&](std::size_t other) { return !is_chosen_[other]; });
}

VictimSearch::Cost VictimSearch::cost_of_chosen() const {
  Cost cost;
  for (const std::size_t victim : chosen_) {
    cost.priorities += victims_[victim].priority;
    cost.starts.emplace_back(start_of(victims_[victim]));
  }
  std::ranges::sort(cost.starts);
  return cost;
}

void VictimSearch::keep_if_best() {
  Cost cost = cost_of_chosen();
  const bool better = !best_ || cost.priorities < best_cost_.priorities ||
                      (cost.priorities == best_cost_.priorities && cost.starts > best_cost_.starts);
  if (!better || !fits()) return;
  best_ = chosen_;
  best_cost_ = std::move(cost);
}

void VictimSearch::extend(std::size_t from, std::size_t missing, std::size_t violations_left) {
  if (missing == 0) return keep_if_best();
  if (worse_than_best(missing, from) || !may_fit_with(missing, from)) return;
  for (std::size_t i = from; i + missing <= victims_.size() && !out_of_steps_; ++i) {
    if (victims_[i].breaks_budget && violations_left == 0) return;  // As do all later ones.
    if (!dominated(i)) choose(i, missing, violations_left);
  }
}

void VictimSearch::choose(std::size_t victim, std::size_t missing, std::size_t violations_left) {
  node_.evict(victims_[victim]);
  chosen_.push_back(victim);
  is_chosen_[victim] = true;
  extend(victim + 1, missing - 1, violations_left - (victims_[victim].breaks_budget ? 1 : 0));
  is_chosen_[victim] = false;
  chosen_.pop_back();
  node_.restore(victims_[victim]);
}

bool VictimSearch::best_is_within(const Bounds& bounds) {
  std::size_t violations = 0;
  for (const std::size_t victim : *best_) {
    violations += victims_[victim].breaks_budget ? 1 : 0;
    node_.evict(victims_[victim]);
  }
  SearchBudget budget{kPlacementStepsMax};
  const bool fits = node_.fits(budget).value_or(true);
  for (const std::size_t victim : *best_) node_.restore(victims_[victim]);
  return fits && violations <= bounds.violations && best_->size() <= bounds.victims;
}

std::optional<std::vector<std::size_t>> VictimSearch::fewest(const Bounds& bounds) {
  const std::size_t most = std::min(bounds.victims, victims_.size());
  for (std::size_t count = 0; count <= most && !best_ && !out_of_steps_; ++count) {
    extend(0, count, bounds.violations);
  }
  MGPU_CHECK(chosen_.empty(), "every chosen victim was restored");
  MGPU_DEBUG_CHECK(!best_ || best_is_within(bounds), "the victims found are within the bounds");
  return best_;
}

}  // namespace mgpu::extender
