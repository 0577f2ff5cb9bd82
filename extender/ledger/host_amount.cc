#include "extender/ledger/host_amount.h"

#include <algorithm>
#include <string>

#include "common/quantity.h"

namespace mgpu::ledger {
namespace {

using placement::HostAmount;
using placement::MilliCpu;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// A pod's sums stay far from overflow, whatever its containers claim.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::int64_t scaled(const kube::StringMap& amounts, std::string_view resource, int power) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_scaled_quantity(resource, found->second, power);
  return amount ? *amount : 0;
}

HostAmount amounts_of(const kube::StringMap& amounts) {
  const std::int64_t bytes = scaled(amounts, "memory", 0);
  return {MilliCpu(std::min(scaled(amounts, "cpu", 3), kMost)),
          MiB(std::min(bytes / kMiB + (bytes % kMiB == 0 ? 0 : 1), kMost))};
}

HostAmount asked_by(const kube::Container& container) {
  HostAmount asked = amounts_of(container.requests);
  const HostAmount limit = amounts_of(container.limits);
  if (!container.requests.contains("cpu")) asked.cpu = limit.cpu;
  if (!container.requests.contains("memory")) asked.memory = limit.memory;
  return asked;
}

HostAmount larger_of(const HostAmount& a, const HostAmount& b) {
  return {std::max(a.cpu, b.cpu), std::max(a.memory, b.memory)};
}

}  // namespace

HostAmount host_of(const kube::Pod& pod) {
  HostAmount sidecars;
  HostAmount most;
  for (const kube::Container& container : pod.init_containers) {
    HostAmount at_once = asked_by(container);
    at_once += sidecars;
    most = larger_of(most, at_once);
    if (container.restart_always) sidecars = at_once;
  }
  HostAmount together = sidecars;
  for (const kube::Container& container : pod.containers) together += asked_by(container);
  most = larger_of(most, together);
  most += amounts_of(pod.overhead);
  return most;
}

HostAmount allocatable_of(const kube::Node& node) {
  return amounts_of(node.allocatable);
}

}  // namespace mgpu::ledger
