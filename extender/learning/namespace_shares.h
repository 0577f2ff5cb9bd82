// What each namespace adds to the learned workload. A namespace belongs to a tenant, who could
// otherwise decide what all others' prices are made for by creating many pods. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "extender/pricing/workload.h"

namespace mgpu::extender {

// A strict order of classes by everything except main memory.
struct ClassesByAmounts {
  bool operator()(const PodClass& a, const PodClass& b) const;
};

// A class of pods that one namespace has in the window.
struct ClassCount {
  std::shared_ptr<const PodClass> what;  // without main memory
  std::int64_t pods = 0;                 // above 0
  std::int64_t memory_mib = 0;           // the sum of their main memory
};

struct NamespaceCount {
  std::int64_t pods = 0;
  std::vector<ClassCount> classes;
};

// The classes of all namespaces, each with the pods that it counts for and their mean main memory.
// `initial` are pods of no namespace, which count in full. A single namespace counts in full. Of
// several,
//   - one counts for at most as many pods as all others together, or kNamespacePodsMin;
//   - where they have more than `classes_max` classes in all, each keeps its most frequent ones, so
//     many that those of all are `classes_max` at most, and at least one.
// The order is that of ClassesByAmounts; equal counts give equal lists.
std::vector<CountedClass> merged(std::vector<NamespaceCount> namespaces,
                                 const std::vector<ClassCount>& initial, std::size_t classes_max);

}  // namespace mgpu::extender
