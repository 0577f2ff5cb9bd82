#include "extender/verbs/pod_request.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "extender/ledger/claim.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"

namespace mgpu::extender {

Result<PodRequest> read_pod_request(const kube::Pod& pod, const Settings& settings) {
  MGPU_CHECK(settings.policy.node != nullptr && settings.policy.card != nullptr,
             "no default policy");
  auto request = read_request(pod, settings.contract, settings.min_memory);
  if (!request) return request.error();
  PodRequest read{.request = std::move(*request),
                  .policy = settings.policy,
                  .host = resources_of(pod),
                  .tie_break_seed = tie_break_seed_of(pod.uid())};
  if (read.request.empty() || read.request.policy.empty()) return read;
  auto policy = find_policy(read.request.policy);
  if (!policy)
    return error("annotation " + settings.contract.policy + ": " + policy.error().message);
  read.policy = *policy;
  return read;
}

std::optional<Placement> place_on(const Ledger& ledger, std::string_view node,
                                  const PlacementContext& context, const Policy& card_policy) {
  const std::optional<Node> found = ledger.node_alone(node);
  if (!found) return std::nullopt;
  SearchBudget budget{kPlacementStepsMax};
  auto answer = place(*found, context, card_policy, budget);
  auto* placed = std::get_if<Placed>(&answer);
  if (placed == nullptr) return std::nullopt;
  return std::move(placed->placement);
}

}  // namespace mgpu::extender
