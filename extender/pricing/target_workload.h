// A workload in a form from which a node's fragmentation is computed quickly. Fragmentation is the
// measure of FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023; the simulator's
// pkg/utils/frag.go): how much of what is free on a node the expected pods cannot use. All amounts
// are thousandths of a card (milli-GPU). For a class m of pods, with r_g free on card g and R on
// all cards of the node n:
//
//   F_n(m) = R                            where m requests no cards, or n cannot run one m
//            sum of r_g too small for m   otherwise; a card of a model that m excludes is too small
//   F_n(M) = sum of p_m * F_n(m)
//
// A node can run one m when it has the CPU for it and enough cards that are large enough. As in
// FGD, neither main memory nor card memory is considered, and a whole card counts as 1000. A node
// whose allocatable CPU is not known has enough. Free is what is neither used nor expected, on
// usable cards. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/contract/limits.h"
#include "extender/placement/cluster.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// Immutable; any thread. Classes that request equally many equally large cards of the same models
// are one entry.
class TargetWorkload {
 public:
  TargetWorkload() = default;  // empty
  explicit TargetWorkload(const Workload& workload);

  bool empty() const { return total_ == 0; }

  // F_n(M), except for rounding. Does not allocate.
  double fragmentation(const Node& node) const;
  // The steps (placement/limits.h) of fragmentation for a node with this many cards.
  std::uint32_t fragmentation_steps(std::size_t cards) const;

 private:
  struct CpuStep {
    std::int64_t milli_cpu;
    double probability;  // of all classes of the size that request at most this much CPU
  };
  struct Size {
    std::int64_t core;  // percent, of each card
    std::int32_t cards;
    std::vector<CpuStep> steps;  // ascending
  };
  // Classes that accept the same models.
  struct Selection {
    std::vector<std::string> models;
    std::vector<std::string> models_excluded;
    std::vector<Size> sizes;  // descending by core
  };
  struct FreeCard {
    std::int64_t core;
    const std::string* model;
  };
  struct FreeCards {
    std::array<FreeCard, kCardsPerNodeMax> cards;  // descending by core
    std::size_t count = 0;
    void add(const FreeCard& card);
    std::span<const FreeCard> all() const { return std::span(cards).first(count); }
  };

  void add(const WeightedClass& one);
  FreeCards free_cards(const Node& node) const;
  double usable(std::size_t selection, const FreeCards& free, std::int64_t milli_cpu) const;

  std::vector<Selection> selections_;
  double total_ = 0;  // the probability of all classes, also of those that request no cards
};

}  // namespace mgpu::extender
