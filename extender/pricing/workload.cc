#include "extender/pricing/workload.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "extender/placement/model_name.h"

namespace mgpu::extender {

namespace {

// In whatever order they are listed, and however often.
std::vector<std::string> each_once(const std::vector<std::string>& models) {
  const std::set<std::string, ModelLess> once(models.begin(), models.end());
  return {once.begin(), once.end()};
}

PodClass class_of(const ContainerRequest& container, const CardSelector& selector) {
  return {.host = {},
          .cards = container.cards,
          .per_card = container.per_card,
          .whole = container.whole,
          .models = each_once(selector.models),
          .models_excluded = each_once(selector.models_excluded)};
}

double pods_in(const std::vector<CountedClass>& counted) {
  double pods = 0;
  for (const CountedClass& one : counted) pods += static_cast<double>(one.count);
  return pods;
}

// Of classes by descending count, those that cover `pods`.
std::size_t classes_that_cover(const std::vector<CountedClass>& counted, double pods) {
  std::size_t classes = 0;
  double covered = 0;
  while (classes < counted.size() && covered < pods) {
    covered += static_cast<double>(counted[classes++].count);
  }
  return classes;
}

}  // namespace

std::vector<PodClass> classes_of(const GpuRequest& request, const NodeResources& host) {
  std::vector<PodClass> classes;
  for (const ContainerRequest& container : request.containers) {
    classes.push_back(class_of(container, request.selector));
  }
  if (classes.empty()) classes.emplace_back();
  classes.front().host = host;
  return classes;
}

Workload workload_of(std::vector<CountedClass> counted, double cover, std::size_t most) {
  std::erase_if(counted, [](const CountedClass& one) { return one.count <= 0; });
  std::ranges::stable_sort(counted, std::greater<>{}, &CountedClass::count);
  const std::size_t enough = classes_that_cover(counted, cover * pods_in(counted));
  counted.resize(std::min(enough, most));
  const double pods = pods_in(counted);
  Workload workload;
  for (CountedClass& one : counted) {
    workload.classes.push_back({std::move(one.what), static_cast<double>(one.count) / pods});
  }
  return workload;
}

}  // namespace mgpu::extender
