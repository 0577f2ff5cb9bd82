#include "extender/pricing/target_workload.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "common/base/check.h"
#include "extender/placement/card_model.h"
#include "extender/placement/fit.h"
#include "extender/placement/measures.h"

namespace mgpu::extender {
namespace {

constexpr double kUsableRounding = 1e-6;  // of sums of probabilities times percents

}  // namespace

TargetWorkload::TargetWorkload(const Workload& workload) {
  MGPU_CHECK(has_all_probabilities(workload), "the probabilities of a workload sum up to 1");
  for (const WeightedClass& one : workload.classes) {
    MGPU_CHECK(one.probability > 0 && one.what.cards >= 0, "a class that can come");
    total_ += one.probability;
    if (one.what.cards > 0) add(one);
  }
  for (Selection& selection : selections_) {
    std::ranges::stable_sort(selection.sizes, std::greater<>{}, &Size::core);
    for (Size& size : selection.sizes) {
      std::ranges::stable_sort(size.steps, {}, &CpuStep::milli_cpu);
      double below = 0;
      for (CpuStep& step : size.steps) step.probability = below += step.probability;
    }
  }
}

void TargetWorkload::add(const WeightedClass& one) {
  const PodClass& what = one.what;
  auto selection = std::ranges::find_if(selections_, [&](const Selection& known) {
    return known.models == what.models && known.models_excluded == what.models_excluded;
  });
  if (selection == selections_.end())
    selection = selections_.insert(selection, {what.models, what.models_excluded, {}});
  std::vector<Size>& sizes = selection->sizes;
  const std::int64_t core = what.per_card.core.value();
  auto size = std::ranges::find_if(
      sizes, [&](const Size& s) { return s.core == core && s.cards == what.cards; });
  if (size == sizes.end()) size = sizes.insert(size, {core, what.cards, {}});
  size->steps.push_back({what.resources.cpu.value(), one.probability});
}

void TargetWorkload::FreeCards::add(const FreeCard& card) {
  MGPU_CHECK(count < cards.size(), "no node has more cards than are counted");
  std::size_t place = count++;
  for (; place > 0 && cards[place - 1].core < card.core; --place) cards[place] = cards[place - 1];
  cards[place] = card;
}

TargetWorkload::FreeCards TargetWorkload::free_cards(const Node& node) const {
  FreeCards free;
  for (const Card& card : cards_of(node)) free.add({free_core(card), &card.model});
  return free;
}

// The free compute that the pods of the selection can use, in percent, weighted by probability.
double TargetWorkload::usable(std::size_t number, const FreeCards& free,
                              std::int64_t milli_cpu) const {
  const auto cards = free.all();
  const Selection& selection = selections_[number];
  const std::string* model = nullptr;  // of the card before, as most cards of a node have it
  bool accepted = false;
  double sum = 0;
  std::size_t next = 0;
  std::int32_t large = 0;  // the accepted ones of the cards before `next`, and their sum
  std::int64_t core = 0;
  for (const Size& size : selection.sizes) {
    for (; next < cards.size() && cards[next].core >= size.core; ++next) {
      if (model == nullptr || *model != *cards[next].model) {
        model = cards[next].model;
        accepted = accepts_model(selection.models, selection.models_excluded, *model);
      }
      if (!accepted) continue;
      ++large;
      core += cards[next].core;
    }
    if (large < size.cards) continue;
    auto step = size.steps.end();
    while (step != size.steps.begin() && std::prev(step)->milli_cpu > milli_cpu) --step;
    if (step != size.steps.begin()) sum += std::prev(step)->probability * static_cast<double>(core);
  }
  return sum;
}

// Eight rounds of the loops in `usable` are as long as a step, and the comparison of a name
// some 64.
std::uint32_t TargetWorkload::fragmentation_steps(std::size_t cards) const {
  constexpr std::size_t kRoundsPerStep = 8;
  constexpr std::size_t kRoundsPerName = 64;
  std::size_t rounds = 0;
  for (const Selection& selection : selections_) {
    rounds += cards;
    rounds += kRoundsPerName * (selection.models.size() + selection.models_excluded.size());
    for (const Size& size : selection.sizes) rounds += 1 + size.steps.size();
  }
  return static_cast<std::uint32_t>(1 + 2 * cards + rounds / kRoundsPerStep);
}

double TargetWorkload::fragmentation(const Node& node) const {
  const FreeCards free = free_cards(node);
  const std::int64_t milli_cpu = node.allocatable.cpu.zero()
                                     ? std::numeric_limits<std::int64_t>::max()
                                     : node.resources_left().cpu.value();
  std::int64_t core = 0;
  for (const FreeCard& card : free.all()) core += card.core;
  double sum = total_ * static_cast<double>(core);
  for (std::size_t i = 0; i < selections_.size(); ++i) sum -= usable(i, free, milli_cpu);
  MGPU_CHECK(sum >= -kUsableRounding, "no more is usable than is free");
  return std::max(sum, 0.0) * kMilliPerPercent;
}

}  // namespace mgpu::extender
