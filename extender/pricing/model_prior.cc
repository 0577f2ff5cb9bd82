#include "extender/pricing/model_prior.h"

#include <algorithm>
#include <string>

#include "extender/placement/model_name.h"

namespace mgpu::extender {
namespace {

// Beside each card.
constexpr std::int64_t kMilliCpu = 8'000;
constexpr std::int64_t kMemoryMiB = 40'000;
// The same, of pods that take all cards of a node.
constexpr std::int64_t kMilliCpuOfSeveral = 12'000;

struct Model {
  std::string name;
  std::int32_t most_cards;  // of one node
};

std::vector<Model> models_of(const Kinds& kinds, const LargestNodes& nodes) {
  std::vector<Model> models;
  for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
    const std::string& name = kinds[kind].model;
    const auto same = [&](const Model& model) { return same_model(model.name, name); };
    const auto at = std::ranges::find_if(models, same);
    if (at != models.end())
      at->most_cards = std::max(at->most_cards, nodes.cards_of(kind));
    else if (!name.empty())
      models.push_back({name, nodes.cards_of(kind)});
  }
  return models;
}

WeightedClass insisting(const Model& model, std::int32_t cards, double probability) {
  const std::int64_t milli_cpu = cards > 1 ? kMilliCpuOfSeveral : kMilliCpu;
  return {.what = {.host = {MilliCpu(cards * milli_cpu), MiB(cards * kMemoryMiB)},
                   .cards = cards,
                   .per_card = {kWholeCard, MiB{}},
                   .whole = true,
                   .models = {model.name},
                   .models_excluded = {}},
          .probability = probability,
          .assumed = true};
}

}  // namespace

void LargestNodes::add(const Node& node, const Kinds& kinds) {
  most_.resize(kinds.size());
  std::vector<std::int32_t> cards(kinds.size());
  for (const Card& card : node.cards) ++cards[kinds.find(kind_of(card))];
  for (std::size_t kind = 0; kind < cards.size(); ++kind)
    most_[kind] = std::max(most_[kind], cards[kind]);
}

void add_model_prior(const Kinds& kinds, const LargestNodes& nodes, Workload& workload) {
  const std::vector<Model> models = models_of(kinds, nodes);
  if (workload.classes.empty() || models.size() < 2) return;
  const auto count = static_cast<double>(models.size());
  for (WeightedClass& one : workload.classes)
    one.probability *= 1 - kUnseenOfOneCard - kUnseenOfANode;
  for (const Model& model : models) {
    workload.classes.push_back(insisting(model, 1, kUnseenOfOneCard / count));
    workload.classes.push_back(
        insisting(model, std::max(model.most_cards, 1), kUnseenOfANode / count));
  }
}

}  // namespace mgpu::extender
