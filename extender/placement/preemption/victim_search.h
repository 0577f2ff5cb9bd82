// The search for the fewest victims whose eviction makes a pod fit. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/contract/gpu_request.h"
#include "extender/placement/cluster.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

struct Freed {
  std::size_t card;  // position in the node
  Share share;
};

// A candidate that holds something which the preemptor may use.
struct Victim {
  std::size_t candidate = 0;
  std::int32_t priority = 0;
  std::string start_time;  // RFC 3339; empty if the pod has not started
  bool breaks_budget = false;
  std::vector<Freed> frees;   // ascending by card
  NodeResources resources{};  // of which the preemptor needs some; else zero
  std::int64_t pods = 1;      // how many pods it stands for
};

// The order by cost: victims that break no budget first, then by priority, then those that started
// last, then by candidate.
bool costs_less(const Victim& a, const Victim& b);

// A copy of a node from which victims have been evicted.
class EvictedNode {
 public:
  // `request` outlives this. Without `resources` only the cards decide whether the pod fits.
  EvictedNode(const Node& node, const GpuRequest& request,
              const std::optional<NodeResources>& resources = std::nullopt);

  void evict(const Victim& victim);
  void restore(const Victim& victim);
  // Whether the pod fits; empty if the budget ran out first.
  std::optional<bool> fits(SearchBudget& budget) const;

 private:
  void refresh(std::size_t card);
  void refresh_host();

  Node node_;
  const GpuRequest& request_;
  std::optional<NodeResources> resources_;
  std::vector<Share> used_;  // by position, before any eviction
  NodeResources resources_used_;
  std::int64_t pods_counted_;
  std::vector<Share> freed_;  // by position
  NodeResources resources_freed_;
  std::int64_t pods_freed_ = 0;
};

class VictimSearch {
 public:
  struct Bounds {
    std::size_t victims;
    std::size_t violations;
  };

  // Searches among `victims`, which are in the order of costs_less, after the evictions of `node`.
  VictimSearch(EvictedNode node, std::span<const Victim> victims, SearchBudget& budget);

  // The fewest victims that make the pod fit; of sets of that size, the one with the lowest sum of
  // priorities, then the one that started last. Positions in `victims`, ascending. Empty if there
  // is none within the bounds, or the budget ran out before a set of the smallest size was found.
  // If it ran out after that, another set of that size may cost less. Of sets with equal sums, the
  // result started last only if no set breaks fewer budgets than `bounds.violations`; otherwise a
  // victim that breaks none is preferred to one that started later and breaks one.
  std::optional<std::vector<std::size_t>> fewest(const Bounds& bounds);

  bool out_of_steps() const { return out_of_steps_; }

 private:
  struct Cost {
    std::int64_t priorities = 0;
    std::vector<std::string> starts;  // ascending
  };

  void find_dominating_victims();
  void sum_up_tails();

  bool fits();
  bool may_fit_with(std::size_t missing, std::size_t from);
  bool worse_than_best(std::size_t missing, std::size_t from) const;
  bool dominated(std::size_t victim) const;
  Cost cost_of_chosen() const;
  bool best_is_within(const Bounds& bounds);  // for checks
  void keep_if_best();
  void extend(std::size_t from, std::size_t missing, std::size_t violations_left);
  void choose(std::size_t victim, std::size_t missing, std::size_t violations_left);

  EvictedNode node_;
  std::span<const Victim> victims_;
  SearchBudget& budget_;
  bool out_of_steps_ = false;
  std::vector<std::vector<std::size_t>> dominating_;  // earlier victims that free at least as much
  // For the victims from this position on: the most that one of them frees of each card, and their
  // lowest priority.
  struct Tail {
    Victim most;
    std::int32_t lowest_priority = 0;
  };
  std::vector<Tail> tails_;
  std::vector<std::size_t> chosen_;
  std::vector<bool> is_chosen_;
  std::optional<std::vector<std::size_t>> best_;
  Cost best_cost_;
};

}  // namespace mgpu::extender
