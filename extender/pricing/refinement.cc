#include "extender/pricing/refinement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "extender/pricing/packing.h"

namespace mgpu::extender {
namespace {

constexpr double kPercentPerGpu = 100;
constexpr double kDecay = 0.8;  // of the step, over all rounds

// The free part of all cards, in GPUs and in whole card memories.
struct Idle {
  double gpus = 0;
  double card_memory = 0;
};

Idle idle_of(std::span<const NodeRoom> nodes) {
  Idle idle;
  for (const NodeRoom& node : nodes) {
    for (const CardRoom& card : node.all()) {
      idle.gpus += card.percent / kPercentPerGpu;
      idle.card_memory += static_cast<double>(card.memory);
    }
  }
  return idle;
}

// The card memory that the class requests, in whole cards of the kind with the least memory.
double memory_of(const PricedClass& one) {
  float part = 0;
  for (std::size_t kind = 1; kind < one.fits.size(); ++kind)
    if (one.fits[kind] != 0) part = std::max(part, one.card_memory[kind]);
  return static_cast<double>(part) * one.cards;
}

double horizon(const std::vector<PricedClass>& classes, const Idle& idle) {
  double gpus = 0;
  double memory = 0;
  for (const PricedClass& one : classes) {
    gpus += static_cast<double>(one.probability) * static_cast<double>(one.gpus);
    memory += static_cast<double>(one.probability) * memory_of(one);
  }
  double pods = gpus > 0 ? idle.gpus / gpus : 0;
  if (memory > 0) pods = std::min(pods, idle.card_memory / memory);
  MGPU_CHECK(std::isfinite(pods) && pods >= 0, "the idle cards last for a number of pods");
  return kHorizon * pods;
}

// N_c by class.
std::vector<double> supply_of(const std::vector<PricedClass>& classes, double pods) {
  std::map<std::int32_t, double> by_cards;
  for (const PricedClass& one : classes)
    by_cards[one.cards] += static_cast<double>(one.probability) * pods;
  std::vector<double> supply;
  for (const PricedClass& one : classes) {
    double coming = static_cast<double>(one.probability) * pods;
    if (one.cards > 1) coming *= 1 + kSafety / std::sqrt(std::max(by_cards[one.cards], 1e-9));
    MGPU_CHECK(coming >= 0, "no fewer than no pods are expected");
    supply.push_back(coming);
  }
  return supply;
}

void take_step(const std::vector<PricedClass>& classes, const std::vector<double>& pods,
               const std::vector<double>& supply, double idle, double step, Prices& prices) {
  MGPU_CHECK(pods.size() == classes.size() && supply.size() == classes.size() &&
                 prices.supply.size() == classes.size(),
             "one number for each class");
  MGPU_CHECK(idle > 0, "an excess is a part of what is idle");
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const double gpus = static_cast<double>(classes[i].gpus);
    const double excess = std::clamp((pods[i] - supply[i]) * gpus / idle, -1.0, 1.0);
    const double price = static_cast<double>(prices.supply[i]) + step * gpus * excess;
    prices.supply[i] = static_cast<float>(std::clamp(price, 0.0, gpus));
  }
}

// Whether each supply price is 0 .. g_c, but for rounding.
bool are_prices_of(const std::vector<PricedClass>& classes, const Prices& prices) {
  constexpr float kPriceRounding = 1e-4F;
  return std::ranges::equal(classes, prices.supply, [](const PricedClass& one, float price) {
    return price >= 0 && price <= one.gpus + kPriceRounding;
  });
}

bool requests_same_cards(const PodClass& a, const PodClass& b) {
  return a.cards == b.cards && a.per_card.core == b.per_card.core && a.whole == b.whole &&
         a.models == b.models;
}

// Main memory is not compared: it is a mean that changes with every pod.
bool same_class(const PodClass& a, const PodClass& b) {
  return requests_same_cards(a, b) && a.per_card.memory == b.per_card.memory &&
         a.resources.cpu == b.resources.cpu && a.models_excluded == b.models_excluded;
}

float nearest_price(const Workload& from, const Prices& prices, const PodClass& what) {
  float sum = 0;
  float count = 0;
  for (std::size_t i = 0; i < from.classes.size(); ++i) {
    if (same_class(from.classes[i].what, what)) return prices.supply[i];
    if (!requests_same_cards(from.classes[i].what, what)) continue;
    sum += prices.supply[i];
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

Prices refine(const Workload& workload, const Kinds& kinds, std::span<const NodeRoom> nodes,
              Prices start, const Refinement& how, const GoOn& go_on) {
  start.supply.resize(workload.classes.size());
  const std::vector<PricedClass> classes = priced_classes(workload, kinds);
  const Idle idle = idle_of(nodes);
  const std::vector<double> supply = supply_of(classes, horizon(classes, idle));
  std::vector<double> sum(classes.size());
  int summed = 0;
  for (int round = 0; round < how.rounds && go_on(); ++round) {
    const PriceTables tables(workload, kinds, start);
    if (tables.empty()) return start;
    const double step = static_cast<double>(how.step) * (1 - kDecay * round / how.rounds);
    Packing packing(tables);
    for (const NodeRoom& node : nodes) packing.add(node);
    take_step(classes, packing.pods(), supply, std::max(idle.gpus, 1.0), step, start);
    if (round < how.rounds / 2) continue;
    ++summed;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(start.supply[i]);
  }
  MGPU_CHECK(are_prices_of(classes, start), "a step keeps prices within the worth of their pods");
  if (summed == 0) return start;
  for (std::size_t i = 0; i < sum.size(); ++i)
    start.supply[i] = static_cast<float>(sum[i] / summed);
  MGPU_CHECK(are_prices_of(classes, start), "a mean of prices is within the worth of their pods");
  return start;
}

Prices carried_over(const Workload& from, const Prices& prices, const Workload& to) {
  MGPU_CHECK(prices.supply.size() == from.classes.size(), "a price for each class");
  Prices carried;
  for (const WeightedClass& one : to.classes)
    carried.supply.push_back(nearest_price(from, prices, one.what));
  MGPU_CHECK(carried.supply.size() == to.classes.size(), "a price for each class");
  return carried;
}

}  // namespace mgpu::extender
