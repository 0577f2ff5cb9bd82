#include "plugin/allocation/node_use.h"

#include <algorithm>
#include <string_view>

#include "common/base/check.h"
#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"

namespace mgpu::plugin {
namespace {

// No node has more of either. The sum of all pods of a node does not overflow.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 40;

struct Amounts {
  std::int64_t milli_cpu = 0;
  std::int64_t core = 0;

  Amounts& operator+=(const Amounts& other) {
    milli_cpu = std::min(milli_cpu + other.milli_cpu, kAmountMax);
    core = std::min(core + other.core, kAmountMax);
    return *this;
  }
};

Amounts max_of(const Amounts& a, const Amounts& b) {
  return {std::max(a.milli_cpu, b.milli_cpu), std::max(a.core, b.core)};
}

std::int64_t amount_of(const kube::StringMap& amounts, std::string_view resource, int power) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_scaled_quantity(resource, found->second, power);
  return amount ? std::min(*amount, kAmountMax) : 0;
}

Amounts amounts_of(const kube::StringMap& amounts, const Contract& contract) {
  constexpr int kMilli = 3;
  return {amount_of(amounts, "cpu", kMilli), amount_of(amounts, contract.core_resource, 0)};
}

// The API server has copied limits without a request into the requests.
Amounts amounts_of(const kube::Pod& pod, const Contract& contract) {
  PodRequests<Amounts> requests;
  for (const kube::Container& container : pod.init_containers) {
    const Amounts amounts = amounts_of(container.requests, contract);
    container.restart_always ? requests.add_lasting(amounts) : requests.add_init(amounts);
  }
  for (const kube::Container& container : pod.containers)
    requests.add_lasting(amounts_of(container.requests, contract));
  Amounts sum = requests.peak();
  sum += amounts_of(pod.overhead, contract);
  MGPU_CHECK(sum.milli_cpu >= 0 && sum.core >= 0, "no pod requests less than nothing");
  return sum;
}

}  // namespace

NodeUse use_of(const std::vector<kube::Pod>& pods, const Contract& contract) {
  Amounts sum;
  for (const kube::Pod& pod : pods)
    if (!pod.finished()) sum += amounts_of(pod, contract);
  return {sum.milli_cpu, Percent(sum.core)};
}

}  // namespace mgpu::plugin
