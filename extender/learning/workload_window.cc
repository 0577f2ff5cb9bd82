#include "extender/learning/workload_window.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "extender/pricing/limits.h"

namespace mgpu::extender {
namespace {

// The first pod of a new window.
ClassCount default_pod() {
  const PodClass what = {.resources = {MilliCpu(8'000), MiB{}},
                         .cards = 1,
                         .per_card = {kWholeCard, MiB{}},
                         .whole = true,
                         .models = {},
                         .models_excluded = {}};
  return {.what = std::make_shared<const PodClass>(what), .pods = 1, .memory_mib = 40'000};
}

NodeResources limited(const NodeResources& resources) {
  return {MilliCpu(std::min(resources.cpu.value(), kLearnedAmountMax)),
          MiB(std::min(resources.memory.value(), kLearnedAmountMax))};
}

double pods_in(const std::vector<CountedClass>& classes) {
  double pods = 0;
  for (const CountedClass& one : classes) pods += one.count;
  return pods;
}

}  // namespace

bool KnownPods::insert(std::uint64_t pod) {
  if (!known_.insert(pod).second) return false;
  order_.push_back(pod);
  if (order_.size() > kWorkloadKnownPods) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  MGPU_CHECK(known_.size() == order_.size(), "each known pod has its place in the order");
  return true;
}

WorkloadWindow::WorkloadWindow(std::size_t pods_max, std::size_t bytes_max)
    : pods_max_(pods_max), gpu_pods_(pods_max, bytes_max) {}

void WorkloadWindow::seen(std::uint64_t pod, std::string_view name_space, const GpuRequest& request,
                          const NodeResources& resources) {
  std::vector<PodClass> classes = classes_of(request, limited(resources));
  const MutexLock lock(mutex_);
  if (request.empty()) {
    if (known_non_gpu_.insert(pod)) add_non_gpu(limited(resources));
    return;
  }
  if (!known_gpu_.insert(pod)) return;
  ++gpu_seen_;
  gpu_pods_.add(name_space, std::move(classes));
}

void WorkloadWindow::add_non_gpu(const NodeResources& resources) {
  ++non_gpu_seen_;
  non_gpu_.push_back(resources);
  non_gpu_sum_ += resources;
  if (non_gpu_.size() <= pods_max_) return;
  MGPU_CHECK(non_gpu_.front().fits_in(non_gpu_sum_), "the sum has each of its pods");
  non_gpu_sum_ -= non_gpu_.front();
  non_gpu_.pop_front();
}

std::uint64_t WorkloadWindow::pods_seen() const {
  const MutexLock lock(mutex_);
  return gpu_seen_ + non_gpu_seen_;
}

std::uint64_t WorkloadWindow::pods_that_change_prices() const {
  const MutexLock lock(mutex_);
  return gpu_seen_ + (non_gpu_seen_ > 0 ? 1 : 0);
}

std::size_t WorkloadWindow::bytes() const {
  const MutexLock lock(mutex_);
  return gpu_pods_.bytes();
}

// The counts are merged without the lock, which every filter needs.
std::vector<CountedClass> WorkloadWindow::counted() const {
  MutexLock lock(mutex_);
  std::vector<NamespaceCount> namespaces = gpu_pods_.counts();
  const bool was_full = gpu_pods_.was_full();
  const auto non_gpu = static_cast<std::int64_t>(non_gpu_.size());
  const NodeResources sum = non_gpu_sum_;
  lock.unlock();
  const std::vector<ClassCount> initial =
      was_full ? std::vector<ClassCount>{} : std::vector{default_pod()};
  std::vector<CountedClass> classes = merged(std::move(namespaces), initial, kPricedClassesMax);
  if (non_gpu == 0) return classes;
  PodClass mean;
  mean.resources = {MilliCpu(sum.cpu.value() / non_gpu), MiB(sum.memory.value() / non_gpu)};
  classes.push_back({std::move(mean), std::min(static_cast<double>(non_gpu), pods_in(classes))});
  return classes;
}

}  // namespace mgpu::extender
