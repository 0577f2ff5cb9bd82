#include "extender/learning/gpu_pod_window.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "extender/learning/limits.h"

namespace mgpu::extender {
namespace {

// Upper bounds of what the containers allocate for each entry besides names.
constexpr std::size_t kPodBytes = 160;
constexpr std::size_t kClassOfPodBytes = 16;
constexpr std::size_t kClassBytes = sizeof(PodClass) + 128;
constexpr std::size_t kNamespaceBytes = 1024;

std::size_t bytes_of(const PodClass& what) {
  std::size_t bytes = kClassBytes;
  for (const auto* names : {&what.models, &what.models_excluded})
    for (const std::string& name : *names) bytes += sizeof(std::string) + name.capacity() + 1;
  return bytes;
}

}  // namespace

void GpuPodWindow::charge(Namespace& name_space, std::size_t bytes) {
  name_space.bytes += bytes;
  bytes_ += bytes;
}

void GpuPodWindow::refund(Namespace& name_space, std::size_t bytes) {
  MGPU_CHECK(bytes <= name_space.bytes && name_space.bytes <= bytes_,
             "no more is refunded than was charged");
  name_space.bytes -= bytes;
  bytes_ -= bytes;
}

GpuPodWindow::Namespace& GpuPodWindow::namespace_of(std::string_view name) {
  const auto found = namespaces_.find(name);
  if (found != namespaces_.end()) return found->second;
  const auto added = namespaces_.try_emplace(std::string(name)).first;
  added->second.name = added->first;
  charge(added->second, kNamespaceBytes + name.size());
  return added->second;
}

void GpuPodWindow::count(Namespace& name_space, std::vector<PodClass> classes) {
  Pod pod{&name_space, {}};
  pod.classes.reserve(classes.size());
  for (PodClass& one : classes) {
    const MiB memory(std::min(one.resources.memory.value(), kLearnedAmountMax));
    one.resources.memory = MiB{};
    auto shared = std::make_shared<const PodClass>(std::move(one));
    const auto [at, added] = name_space.classes.try_emplace(std::move(shared));
    if (added) charge(name_space, bytes_of(*at->first));
    ++at->second.pods;
    at->second.memory_mib += memory.value();
    pod.classes.emplace_back(at, memory);
  }
  charge(name_space, kPodBytes + pod.classes.size() * kClassOfPodBytes);
  pods_.push_back(std::move(pod));
  name_space.pods.push_back(std::prev(pods_.end()));
}

void GpuPodWindow::add(std::string_view name_space, std::vector<PodClass> classes) {
  count(namespace_of(name_space), std::move(classes));
  while (full()) {
    was_full_ = true;
    // It is gone once its last pod, which may be the new one, has been removed.
    const auto own = namespaces_.find(name_space);
    const bool from_own = own != namespaces_.end() && has_large_part(own->second);
    remove_oldest(from_own ? own->second : *pods_.front().name_space);
  }
  MGPU_CHECK(pods_.size() <= pods_max_ && bytes_ <= bytes_max_, "the window keeps its bounds");
}

bool GpuPodWindow::has_large_part(const Namespace& name_space) const {
  return name_space.pods.size() > pods_max_ / kNamespaceParts ||
         name_space.bytes > bytes_max_ / kNamespaceParts;
}

void GpuPodWindow::remove_oldest(Namespace& name_space) {
  MGPU_CHECK(!name_space.pods.empty(), "a namespace of the window has pods");
  const Pods::iterator pod = name_space.pods.front();
  for (const auto& [at, memory] : pod->classes) {
    MGPU_CHECK(at->second.pods > 0 && at->second.memory_mib >= memory.value(),
               "a class has counted its pods");
    at->second.memory_mib -= memory.value();
    if (--at->second.pods > 0) continue;
    refund(name_space, bytes_of(*at->first));
    name_space.classes.erase(at);
  }
  refund(name_space, kPodBytes + pod->classes.size() * kClassOfPodBytes);
  pods_.erase(pod);
  name_space.pods.pop_front();
  if (!name_space.pods.empty()) return;
  MGPU_CHECK(name_space.classes.empty(), "a namespace without pods has no classes");
  refund(name_space, name_space.bytes);
  namespaces_.erase(namespaces_.find(name_space.name));
  MGPU_CHECK(!namespaces_.empty() || bytes_ == 0, "an empty window is charged with nothing");
}

std::vector<NamespaceCount> GpuPodWindow::counts() const {
  std::vector<NamespaceCount> counts;
  counts.reserve(namespaces_.size());
  for (const auto& [name, name_space] : namespaces_) {
    NamespaceCount& count = counts.emplace_back();
    count.pods = static_cast<std::int64_t>(name_space.pods.size());
    count.classes.reserve(name_space.classes.size());
    for (const auto& [what, counted] : name_space.classes)
      count.classes.push_back({what, counted.pods, counted.memory_mib});
  }
  return counts;
}

}  // namespace mgpu::extender
