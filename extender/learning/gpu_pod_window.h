// The last pods with cards, by namespace. A tenant decides what its pods request and how many there
// are, so the window is bounded in pods and in bytes, and one namespace cannot remove the pods of
// the others from it. Not thread-safe: part of WorkloadWindow, used under its lock.
//
// In a window that is full, each new pod removes an old one:
//   the oldest of its own namespace, where that has more than 1/kNamespaceParts of the window
//   the oldest of all, otherwise
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "extender/learning/namespace_shares.h"
#include "extender/pricing/workload.h"

namespace mgpu::extender {

class GpuPodWindow {
 public:
  GpuPodWindow(std::size_t pods_max, std::size_t bytes_max)
      : pods_max_(pods_max), bytes_max_(bytes_max) {}
  GpuPodWindow(const GpuPodWindow&) = delete;
  GpuPodWindow& operator=(const GpuPodWindow&) = delete;

  // `classes` are those of one pod (classes_of).
  void add(std::string_view name_space, std::vector<PodClass> classes);

  // One entry for each namespace with pods, in the order of names. The classes are shared with the
  // window, so that a copy is cheap.
  std::vector<NamespaceCount> counts() const;
  // Whether the window has removed a pod since it was created.
  bool was_full() const { return was_full_; }
  std::size_t pods() const { return pods_.size(); }
  // An upper bound of the memory that it takes.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Counted {
    std::int64_t pods = 0;
    std::int64_t memory_mib = 0;  // the sum of their main memory
  };
  using ClassPtr = std::shared_ptr<const PodClass>;
  struct ByClass {
    bool operator()(const ClassPtr& a, const ClassPtr& b) const {
      return ClassesByAmounts()(*a, *b);
    }
  };
  using Classes = std::map<ClassPtr, Counted, ByClass>;
  struct Namespace;
  struct Pod {
    Namespace* name_space;
    std::vector<std::pair<Classes::iterator, MiB>> classes;  // with the pod's main memory
  };
  using Pods = std::list<Pod>;
  struct Namespace {
    std::string_view name;  // its key
    Classes classes;
    std::deque<Pods::iterator> pods;  // in the order seen
    std::size_t bytes = 0;
  };

  Namespace& namespace_of(std::string_view name);
  void count(Namespace& name_space, std::vector<PodClass> classes);
  bool full() const { return pods_.size() > pods_max_ || bytes_ > bytes_max_; }
  bool has_large_part(const Namespace& name_space) const;
  void remove_oldest(Namespace& name_space);
  void charge(Namespace& name_space, std::size_t bytes);
  void refund(Namespace& name_space, std::size_t bytes);

  const std::size_t pods_max_;
  const std::size_t bytes_max_;
  std::map<std::string, Namespace, std::less<>> namespaces_;  // those with pods
  Pods pods_;                                                 // in the order seen
  std::size_t bytes_ = 0;                                     // the sum of all namespaces
  bool was_full_ = false;
};

}  // namespace mgpu::extender
