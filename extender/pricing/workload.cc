#include "extender/pricing/workload.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "extender/placement/card_model.h"

namespace mgpu::extender {

namespace {

// Sorted, without duplicates.
std::vector<std::string> each_once(const std::vector<std::string>& models) {
  const std::set<std::string, ModelLess> once(models.begin(), models.end());
  return {once.begin(), once.end()};
}

double pods_in(const std::vector<CountedClass>& counted) {
  double pods = 0;
  for (const CountedClass& one : counted) pods += static_cast<double>(one.count);
  return pods;
}

}  // namespace

std::vector<PodClass> classes_of(const GpuRequest& request, const NodeResources& host) {
  std::vector<PodClass> classes;
  for (const ContainerRequest& container : request.containers) {
    classes.push_back({.host = {},
                       .cards = container.cards,
                       .per_card = container.per_card,
                       .whole = container.whole,
                       .models = each_once(request.selector.models),
                       .models_excluded = each_once(request.selector.models_excluded)});
  }
  if (classes.empty()) classes.emplace_back();
  classes.front().host = host;
  return classes;
}

Workload workload_of(std::vector<CountedClass> counted, double cover, std::size_t most) {
  std::erase_if(counted, [](const CountedClass& one) { return one.count <= 0; });
  std::ranges::stable_sort(counted, std::greater<>{}, &CountedClass::count);
  const double enough = cover * pods_in(counted);
  std::size_t classes = 0;
  for (double covered = 0; classes < std::min(counted.size(), most) && covered < enough; ++classes)
    covered += static_cast<double>(counted[classes].count);
  counted.resize(classes);
  const double pods = pods_in(counted);
  Workload workload;
  for (CountedClass& one : counted) {
    workload.classes.push_back({std::move(one.what), static_cast<double>(one.count) / pods});
  }
  return workload;
}

}  // namespace mgpu::extender
