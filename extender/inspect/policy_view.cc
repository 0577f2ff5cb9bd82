#include <chrono>
#include <cmath>

#include "extender/inspect/views.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {
namespace {

// The numbers are floats: more digits mean nothing.
double rounded(double value) {
  constexpr double kDigits = 1e6;
  return std::round(value * kDigits) / kDigits;
}

std::string name_of(const PolicyChoice& choice) {
  const std::string node(choice.node->name);
  return choice.node == choice.card ? node : node + "/" + std::string(choice.card->name);
}

Json class_json(const WeightedClass& weighted) {
  const PodClass& what = weighted.what;
  Json out = {{"probability", rounded(weighted.probability)}, {"cards", what.cards}};
  if (weighted.assumed) out["assumed"] = true;
  if (what.cards > 0) out["core"] = what.per_card.core.value();
  if (what.cards > 0 && !what.whole) out["memoryMiB"] = what.per_card.memory.value();
  out["milliCPU"] = what.resources.cpu.value();
  out["hostMemoryMiB"] = what.resources.memory.value();
  if (!what.models.empty()) out["models"] = what.models;
  if (!what.models_excluded.empty()) out["modelsExcluded"] = what.models_excluded;
  return out;
}

Json classes_json(const PriceSnapshot& price_snapshot) {
  Json out = Json::array();
  for (std::size_t i = 0; i < price_snapshot.workload.classes.size(); ++i) {
    out.push_back(class_json(price_snapshot.workload.classes[i]));
    if (i >= price_snapshot.tables.classes().size() || i >= price_snapshot.prices.supply.size())
      continue;
    out.back()["gpus"] = rounded(static_cast<double>(price_snapshot.tables.classes()[i].gpus));
    out.back()["supplyPrice"] = rounded(static_cast<double>(price_snapshot.prices.supply[i]));
  }
  return out;
}

Json kinds_json(const Kinds& kinds) {
  Json out = Json::array();
  for (std::size_t kind = 1; kind < kinds.size(); ++kind)
    out.push_back({{"model", kinds[kind].model}, {"memoryMiB", kinds[kind].memory.value()}});
  return out;
}

}  // namespace

http::Response policy_view(const VerbContext& context, Instant now) {
  Json out = {{"default", name_of(context.options.policy)}, {"policies", Json::array()}};
  for (const auto name : policy_names()) out["policies"].push_back(name);
  out["podsSeen"] = context.window != nullptr ? context.window->pods_seen() : 0;
  const auto price_snapshot = context.prices.current();
  if (!price_snapshot) return json_response(out);
  const std::chrono::duration<double> age = now - context.prices.since();
  out["prices"] = {{"version", price_snapshot->version},
                   {"ageSeconds", age.count()},
                   {"kinds", kinds_json(price_snapshot->tables.kinds())},
                   {"classes", classes_json(*price_snapshot)}};
  return json_response(out);
}

}  // namespace mgpu::extender
