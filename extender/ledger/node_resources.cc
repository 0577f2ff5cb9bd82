#include "extender/ledger/node_resources.h"

#include <algorithm>
#include <string>

#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"

namespace mgpu::extender {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// A pod's sums stay far from overflow, whatever its containers claim.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::int64_t scaled(const kube::StringMap& amounts, std::string_view resource, int power) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_scaled_quantity(resource, found->second, power);
  return amount ? *amount : 0;
}

NodeResources amounts_of(const kube::StringMap& amounts) {
  const std::int64_t bytes = scaled(amounts, "memory", 0);
  return {MilliCpu(std::min(scaled(amounts, "cpu", 3), kMost)),
          MiB(std::min(bytes / kMiB + (bytes % kMiB == 0 ? 0 : 1), kMost))};
}

NodeResources asked_by(const kube::Container& container) {
  NodeResources asked = amounts_of(container.requests);
  const NodeResources limit = amounts_of(container.limits);
  if (!container.requests.contains("cpu")) asked.cpu = limit.cpu;
  if (!container.requests.contains("memory")) asked.memory = limit.memory;
  return asked;
}

}  // namespace

NodeResources resources_of(const kube::Pod& pod) {
  PodRequests<NodeResources> requests;
  for (const kube::Container& container : pod.init_containers) {
    const NodeResources amount = asked_by(container);
    container.restart_always ? requests.add_lasting(amount) : requests.add_init(amount);
  }
  for (const kube::Container& container : pod.containers) requests.add_lasting(asked_by(container));
  NodeResources sum = requests.peak();
  sum += amounts_of(pod.overhead);
  return sum;
}

NodeResources allocatable_of(const kube::Node& node) {
  return amounts_of(node.allocatable);
}

}  // namespace mgpu::extender
