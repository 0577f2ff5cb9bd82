// The search for the fewest victims that make a pod fit. Pure.
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

// A candidate that holds something of a card which the pod may use.
struct Victim {
  std::size_t candidate = 0;
  std::int32_t priority = 0;
  std::string start_time;  // RFC 3339; empty: has not started
  bool breaks_budget = false;
  std::vector<Freed> frees;  // ascending by card
};

// Victims that cost less come first: those that break no budget, then by priority, then those that
// started last, then by candidate.
bool costs_less(const Victim& a, const Victim& b);

// A node some of whose pods are gone.
class Trial {
 public:
  // `request` outlives the trial.
  Trial(const Node& node, const GpuRequest& request);

  void evict(const Victim& victim);
  void restore(const Victim& victim);
  // Whether the pod fits; empty where the budget is too small to tell.
  std::optional<bool> fits(SearchBudget& budget) const;

 private:
  void refresh(std::size_t card);

  Node node_;
  const GpuRequest& request_;
  std::vector<Share> used_;   // at first, by position
  std::vector<Share> freed_;  // since
};

class VictimSearch {
 public:
  struct Bounds {
    std::size_t victims;
    std::size_t violations;
  };

  // Searches among `victims`, in the order of costs_less, on top of what `trial` has evicted.
  VictimSearch(Trial trial, std::span<const Victim> victims, SearchBudget& budget);

  // The fewest that make the pod fit; of as many, those with the lowest sum of priorities, then
  // those that started last. Positions in `victims`, ascending. Empty: none within the bounds, or
  // the budget ran out before one was known to be of the fewest. Where it ran out and a set is
  // given, another of as many may cost less. Which of the sets of equal sum started last is certain
  // only where no set breaks fewer budgets than `bounds.violations`: where one does, a victim that
  // breaks none is preferred to one that started later and breaks one.
  std::optional<std::vector<std::size_t>> fewest(const Bounds& bounds);

  bool out_of_steps() const { return out_of_steps_; }

 private:
  struct Cost {
    std::int64_t priorities = 0;
    std::vector<std::string> starts;  // ascending
  };

  void find_dominators();
  void sum_up_tails();

  bool fits();
  bool may_fit_with(std::size_t missing, std::size_t from);
  bool worse_than_best(std::size_t missing, std::size_t from) const;
  bool dominated(std::size_t victim) const;
  Cost cost_of_chosen() const;
  bool within(const Bounds& bounds);  // the best; for checks
  void keep_if_best();
  void extend(std::size_t from, std::size_t missing, std::size_t violations_left);
  void choose(std::size_t victim, std::size_t missing, std::size_t violations_left);

  Trial trial_;
  std::span<const Victim> victims_;
  SearchBudget& budget_;
  bool out_of_steps_ = false;
  std::vector<std::vector<std::size_t>> dominators_;  // earlier ones that free at least as much
  // Of the victims from this position on: the most that one of them frees of each card, and the
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
