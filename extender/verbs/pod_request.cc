#include "extender/verbs/pod_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/text.h"
#include "extender/ledger/claim.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

namespace {

Result<void> check_min_core(const GpuRequest& request, Percent min_core) {
  for (const ContainerRequest& container : request.containers) {
    if (container.whole || container.per_card.core >= min_core) continue;
    return error(fmt::format(
        "container {} requests {} % of a card, and this cluster gives at least {} % (--min-core)",
        in_quotes(container.name), container.per_card.core.value(), min_core.value()));
  }
  return {};
}

}  // namespace

Result<PodRequest> read_pod_request(const kube::Pod& pod, const Settings& settings) {
  MGPU_CHECK(settings.policy.node != nullptr && settings.policy.card != nullptr,
             "no default policy");
  auto request = read_request(pod, settings.contract, settings.min_memory);
  if (!request) return request.error();
  if (auto ok = check_min_core(*request, settings.min_core); !ok) return ok.error();
  PodRequest read{.request = std::move(*request),
                  .policy = settings.policy,
                  .resources = resources_of(pod),
                  .tie_break_seed = tie_break_seed_of(pod.uid()),
                  .pod = {pod.uid(), pod.priority}};
  if (read.request.empty() || read.request.policy.empty()) return read;
  auto policy = find_policy(read.request.policy);
  if (!policy) {
    return error(
        fmt::format("annotation {}: {}", settings.contract.policy, policy.error().message));
  }
  read.policy = *policy;
  return read;
}

bool names_cards(const kube::Pod& pod, const Contract& contract) {
  const auto in = [&](const kube::StringMap& amounts) {
    return amounts.contains(contract.core_resource) || amounts.contains(contract.memory_resource);
  };
  const auto names = [&](const kube::Container& container) {
    return in(container.limits) || in(container.requests);
  };
  return std::ranges::any_of(pod.containers, names) ||
         std::ranges::any_of(pod.init_containers, names);
}

std::optional<Placement> place_on(const Ledger& ledger, std::string_view node,
                                  const PodRequest& pod, const PriceSnapshot* price_snapshot) {
  const auto found = ledger.node_for(node, pod.pod);
  if (!found) return std::nullopt;
  return place_on(found->available(), pod, price_snapshot);
}

std::optional<Placement> place_on(const Node& node, const PodRequest& pod,
                                  const PriceSnapshot* price_snapshot) {
  SearchBudget budget{kPlacementStepsMax};
  auto answer = place(node, pod.context(price_snapshot), *pod.policy.card, budget);
  auto* placed = std::get_if<Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace mgpu::extender
