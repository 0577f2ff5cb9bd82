#include "extender/pricing/model_prior.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "extender/placement/card_model.h"

namespace mgpu::extender {
namespace {

// The requests of a pod for each of its cards.
constexpr std::int64_t kMilliCpu = 8'000;
constexpr std::int64_t kMilliCpuOfSeveral = 12'000;  // where it has several cards
constexpr std::int64_t kMemoryMiB = 40'000;

struct Model {
  std::string name;
  std::int32_t most_cards;  // of one node
};

std::vector<Model> models_of(const Kinds& kinds) {
  std::vector<Model> models;
  for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
    const std::string& name = kinds[kind].model;
    const auto same = [&](const Model& model) { return same_model(model.name, name); };
    const auto at = std::ranges::find_if(models, same);
    if (at != models.end()) {
      at->most_cards = std::max(at->most_cards, kinds.most_cards(kind));
    } else if (!name.empty()) {
      models.push_back({name, kinds.most_cards(kind)});
    }
  }
  return models;
}

WeightedClass prior_class(const Model& model, std::int32_t cards, double probability) {
  const std::int64_t milli_cpu = cards > 1 ? kMilliCpuOfSeveral : kMilliCpu;
  return {.what = {.resources = {MilliCpu(cards * milli_cpu), MiB(cards * kMemoryMiB)},
                   .cards = cards,
                   .per_card = {kWholeCard, MiB{}},
                   .whole = true,
                   .models = {model.name},
                   .models_excluded = {}},
          .probability = probability,
          .assumed = true};
}

}  // namespace

void add_model_prior(const Kinds& kinds, Workload& workload) {
  MGPU_CHECK(has_all_probabilities(workload), "the probabilities of a workload sum up to 1");
  const std::vector<Model> models = models_of(kinds);
  // With one model, a pod that names it is like one that names none.
  if (workload.classes.empty() || models.size() < 2) return;
  const auto count = static_cast<double>(models.size());
  for (WeightedClass& one : workload.classes)
    one.probability *= 1 - kPriorOfOneCard - kPriorOfANode;
  for (const Model& model : models) {
    workload.classes.push_back(prior_class(model, 1, kPriorOfOneCard / count));
    workload.classes.push_back(prior_class(model, model.most_cards, kPriorOfANode / count));
  }
  MGPU_CHECK(has_all_probabilities(workload), "the prior takes its part from the other classes");
}

}  // namespace mgpu::extender
