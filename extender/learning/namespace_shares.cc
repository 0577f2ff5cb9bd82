#include "extender/learning/namespace_shares.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

struct ByPointedAmounts {
  bool operator()(const PodClass* a, const PodClass* b) const { return ClassesByAmounts()(*a, *b); }
};

struct Merged {
  double counted_for = 0;
  std::int64_t pods = 0;
  std::int64_t memory_mib = 0;
};

using MergedClasses = std::map<const PodClass*, Merged, ByPointedAmounts>;

void add(MergedClasses& by_class, const std::vector<ClassCount>& classes, double fraction) {
  for (const ClassCount& counted : classes) {
    Merged& all = by_class[counted.what.get()];
    all.counted_for += fraction * static_cast<double>(counted.pods);
    all.pods += counted.pods;
    all.memory_mib += counted.memory_mib;
  }
}

// The fraction of its pods for which the namespace counts.
double fraction_of(std::int64_t own, std::int64_t others) {
  const std::int64_t most = std::max(others, kNamespacePodsMin);
  return own <= most ? 1 : static_cast<double>(most) / static_cast<double>(own);
}

// The most classes that a namespace may keep: those with fewer keep all, and the others share the
// rest equally.
std::size_t classes_each(const std::vector<NamespaceCount>& namespaces, std::size_t classes_max) {
  std::vector<std::size_t> sizes;
  sizes.reserve(namespaces.size());
  for (const NamespaceCount& one : namespaces) sizes.push_back(one.classes.size());
  std::ranges::sort(sizes);
  std::size_t left = classes_max;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t share = left / (sizes.size() - i);
    if (sizes[i] > share) return std::max<std::size_t>(share, 1);
    MGPU_CHECK(sizes[i] <= left, "a namespace keeps no more than its share");
    left -= sizes[i];
  }
  return classes_max;
}

void keep_most_frequent(std::vector<ClassCount>& classes, std::size_t most) {
  if (classes.size() <= most) return;
  std::ranges::stable_sort(classes, std::greater<>{}, &ClassCount::pods);
  classes.resize(most);
}

}  // namespace

bool ClassesByAmounts::operator()(const PodClass& a, const PodClass& b) const {
  const auto key = [](const PodClass& one) {
    return std::tie(one.cards, one.whole, one.per_card.core, one.per_card.memory, one.resources.cpu,
                    one.models, one.models_excluded);
  };
  return key(a) < key(b);
}

std::vector<CountedClass> merged(std::vector<NamespaceCount> namespaces,
                                 const std::vector<ClassCount>& initial, std::size_t classes_max) {
  std::int64_t pods = 0;
  for (const NamespaceCount& one : namespaces) pods += one.pods;
  const bool several = namespaces.size() > 1;
  const std::size_t each = classes_each(namespaces, classes_max);
  MergedClasses by_class;
  add(by_class, initial, 1);
  for (NamespaceCount& one : namespaces) {
    if (several) keep_most_frequent(one.classes, each);
    add(by_class, one.classes, several ? fraction_of(one.pods, pods - one.pods) : 1);
  }
  std::vector<CountedClass> classes;
  classes.reserve(by_class.size());
  for (const auto& [what, all] : by_class) {
    MGPU_CHECK(all.pods > 0 && all.memory_mib >= 0, "a class was counted");
    MGPU_CHECK(all.counted_for >= 0 && all.counted_for <= static_cast<double>(all.pods),
               "a namespace counts for its pods at most");
    classes.push_back({*what, all.counted_for});
    classes.back().what.resources.memory = MiB(all.memory_mib / all.pods);
  }
  return classes;
}

}  // namespace mgpu::extender
