#include "extender/pricing/workload.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {

namespace {

// Sorted, without duplicates.
std::vector<std::string> each_once(const std::vector<std::string>& models) {
  const std::set<std::string> once(models.begin(), models.end());
  return {once.begin(), once.end()};
}

double pods_in(const std::vector<CountedClass>& counted) {
  double pods = 0;
  for (const CountedClass& one : counted) pods += one.count;
  return pods;
}

// The containers that take the most compute, at most kPodClassesMax, in the order of the pod.
std::vector<const ContainerRequest*> largest_containers(const GpuRequest& request) {
  std::vector<const ContainerRequest*> largest;
  for (const ContainerRequest& container : request.containers) largest.push_back(&container);
  if (largest.size() <= kPodClassesMax) return largest;
  const auto compute = [](const ContainerRequest* container) {
    return container->cards * container->per_card.core.value();
  };
  std::ranges::stable_sort(largest, std::greater<>{}, compute);
  largest.resize(kPodClassesMax);
  std::ranges::sort(largest);  // All point into one vector.
  return largest;
}

}  // namespace

bool has_all_probabilities(const Workload& workload) {
  constexpr double kProbabilityRounding = 1e-6;
  double sum = 0;
  for (const WeightedClass& one : workload.classes) sum += one.probability;
  return workload.classes.empty() || std::abs(sum - 1) < kProbabilityRounding;
}

std::vector<PodClass> classes_of(const GpuRequest& request, const NodeResources& resources) {
  std::vector<PodClass> classes;
  for (const ContainerRequest* container : largest_containers(request)) {
    classes.push_back({.resources = {},
                       .cards = container->cards,
                       .per_card = container->per_card,
                       .whole = container->whole,
                       .models = each_once(request.selector.models),
                       .models_excluded = each_once(request.selector.models_excluded)});
  }
  MGPU_CHECK(classes.size() <= kPodClassesMax, "one pod does not count as many");
  if (classes.empty()) classes.emplace_back();
  classes.front().resources = resources;
  return classes;
}

Workload workload_of(std::vector<CountedClass> counted, double cover, std::size_t most) {
  std::erase_if(counted, [](const CountedClass& one) { return one.count <= 0; });
  std::ranges::stable_sort(counted, std::greater<>{}, &CountedClass::count);
  const double enough = cover * pods_in(counted);
  std::size_t classes = 0;
  std::size_t with_cards = 0;
  double covered = 0;
  for (; classes < counted.size() && with_cards < most && covered < enough; ++classes) {
    covered += counted[classes].count;
    with_cards += counted[classes].what.cards > 0 ? 1 : 0;
  }
  counted.resize(classes);
  const double pods = pods_in(counted);
  Workload workload;
  for (CountedClass& one : counted) {
    MGPU_CHECK(one.count > 0 && one.count <= pods, "a class is a part of all pods");
    workload.classes.push_back({std::move(one.what), one.count / pods});
  }
  MGPU_CHECK(has_all_probabilities(workload), "the probabilities of a workload sum up to 1");
  return workload;
}

}  // namespace mgpu::extender
