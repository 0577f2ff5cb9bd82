#include "extender/learning/workload_window.h"

#include <tuple>
#include <utility>

#include "common/base/mutex.h"
#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

// The first pod of a new window.
PodClass default_pod() {
  return {.host = {MilliCpu(8'000), MiB(40'000)},
          .cards = 1,
          .per_card = {kWholeCard, MiB{}},
          .whole = true,
          .models = {},
          .models_excluded = {}};
}

}  // namespace

bool WorkloadWindow::ByAmounts::operator()(const PodClass& a, const PodClass& b) const {
  const auto key = [](const PodClass& one) {
    return std::tie(one.cards, one.whole, one.per_card.core, one.per_card.memory, one.host.cpu,
                    one.models, one.models_excluded);
  };
  return key(a) < key(b);
}

WorkloadWindow::WorkloadWindow(std::size_t most) : most_(most) {
  add({default_pod()});
}

void WorkloadWindow::seen(std::uint64_t pod, const GpuRequest& request, const NodeResources& host) {
  const MutexLock lock(mutex_);
  if (!known_.insert(pod).second) return;
  known_order_.push_back(pod);
  if (known_order_.size() > kWorkloadKnownPods) {
    known_.erase(known_order_.front());
    known_order_.pop_front();
  }
  ++seen_;
  add(classes_of(request, host));
  for (; pods_.size() > most_; pods_.pop_front()) {
    for (const auto& [at, memory] : pods_.front()) {
      at->second.memory_mib -= memory.value();
      if (--at->second.pods == 0) classes_.erase(at);
    }
  }
}

void WorkloadWindow::add(std::vector<PodClass> classes) {
  Seen seen;
  for (PodClass& one : classes) {
    const MiB memory = std::exchange(one.host.memory, MiB{});
    const auto at = classes_.try_emplace(std::move(one)).first;
    ++at->second.pods;
    at->second.memory_mib += memory.value();
    seen.emplace_back(at, memory);
  }
  pods_.push_back(std::move(seen));
}

std::uint64_t WorkloadWindow::pods_seen() const {
  const MutexLock lock(mutex_);
  return seen_;
}

std::vector<CountedClass> WorkloadWindow::counted() const {
  const MutexLock lock(mutex_);
  std::vector<CountedClass> all;
  for (const auto& [what, counted] : classes_) {
    all.push_back({what, counted.pods});
    all.back().what.host.memory = MiB(counted.memory_mib / counted.pods);
  }
  return all;
}

}  // namespace mgpu::extender
