// A workload laid out so that a node's fragmentation is found quickly: what FGD computes for every
// node and card of a decision. Classes that want equally many equally large cards of the same
// models are one entry, and what a node cannot host is passed over together. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/limits.h"
#include "extender/placement/cluster.h"
#include "extender/placement/holds.h"
#include "extender/placement/model_name.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

// Immutable once made; any thread.
class TargetWorkload {
 public:
  TargetWorkload() = default;  // nothing is known
  explicit TargetWorkload(const Workload& workload);

  bool empty() const { return total_ == 0; }

  // F_n(M) of fragmentation.h, in thousandths of a card, but for rounding: of the node as it is,
  // and after a pod with these host amounts and holds has come. Holds beyond what is free, or on
  // cards that the node does not have, take nothing more. Does not allocate.
  double fragmentation(const Node& node) const { return fragmentation_after(node, {}, {}); }
  double fragmentation_after(const Node& node, const NodeResources& host,
                             std::span<const CardHold> pod) const;

 private:
  // Who asks for at most this much CPU: the probability of all who do.
  struct CpuStep {
    std::int64_t milli_cpu;
    double probability;
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
  using Accepting = std::vector<bool>;  // by selection
  struct FreeCard {
    std::int64_t core;
    const Accepting* accepting;
  };
  struct FreeCards {
    std::array<FreeCard, kCardsPerNodeMax> cards;  // descending by core
    std::size_t count = 0;
    void add(const FreeCard& card);
    std::span<const FreeCard> all() const { return std::span(cards).first(count); }
  };

  Selection& selection_of(const PodClass& what);
  void add(const WeightedClass& one);
  void list_models();
  Accepting accepting(std::string_view model) const;
  const Accepting* accepting_of(std::string_view model) const;
  FreeCards free_cards(const Node& node, std::span<const CardHold> pod) const;
  double of_use(std::size_t selection, const FreeCards& free, std::int64_t milli_cpu) const;

  std::vector<Selection> selections_;
  std::map<std::string, Accepting, ModelLess> by_model_;  // the models that a selection names
  Accepting by_others_;                                   // every other model
  double total_ = 0;  // the probability of all classes, those that ask for no cards too
};

}  // namespace mgpu::extender
