#include "extender/ledger/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"
#include "extender/ledger/limits.h"
#include "extender/placement/policy.h"

namespace mgpu::extender {
namespace {

std::string cut(std::string_view text) {
  return std::string(cut_text(text, kKeptSentenceBytesMax));
}

// --- pods ----------------------------------------------------------------------------------------

// Whether a container has an amount of cards that is not zero. One that cannot be parsed counts.
bool asks_for_cards(const kube::Pod& pod, const Contract& contract) {
  const auto in = [&](const kube::StringMap& amounts) {
    for (const std::string* resource : {&contract.core_resource, &contract.memory_resource}) {
      const auto found = amounts.find(*resource);
      if (found == amounts.end()) continue;
      const Result<std::int64_t> amount = parse_whole_quantity(*resource, found->second);
      if (amount.has_error() || *amount != 0) return true;
    }
    return false;
  };
  const auto asks = [&](const kube::Container& container) {
    return in(container.limits) || in(container.requests);
  };
  return std::ranges::any_of(pod.containers, asks) ||
         std::ranges::any_of(pod.init_containers, asks);
}

// "main 0,2; side 1"
std::string cards_text(const Claim& claim) {
  std::string text;
  for (std::size_t i = 0; i < claim.placement->cards_of.size(); ++i) {
    if (!text.empty()) text += "; ";
    text += claim.request.containers[i].name + " ";
    text += format_card_indices(claim.placement->cards_of[i]);
  }
  return text;
}

void set_drift(Claim& claim, std::optional<DriftKind> drift, std::string_view detail) {
  claim.drift = drift;
  claim.drift_detail = cut(detail);
}

void read_request_and_cards(Claim& claim, const kube::Pod& pod, const Contract& contract) {
  constexpr DriftKind kWithoutCards = DriftKind::kBindingWithoutCards;
  Result<GpuRequest> request = read_containers(pod, contract, MiB{});
  if (request.has_error()) return set_drift(claim, kWithoutCards, request.error().message);
  claim.request = std::move(*request);
  const auto first = pod.metadata.annotations.lower_bound(contract.index_prefix);
  if (first == pod.metadata.annotations.end() || !first->first.starts_with(contract.index_prefix)) {
    return set_drift(claim, kWithoutCards,
                     fmt::format("no annotation {}<container>", contract.index_prefix));
  }
  Result<Placement> placement = read_placement(pod, claim.request, contract);
  if (placement.has_error()) return set_drift(claim, kWithoutCards, placement.error().message);
  claim.placement = std::move(*placement);
}

// The binding wrote as many indices as the container had cards then. So these are its cards, also
// where the annotation with the number of cards has been edited since.
void read_cards_by_indices(Claim& claim, const kube::Pod& pod, const Contract& contract) {
  Result<GpuRequest> request = read_bound_containers(pod, contract);
  if (request.has_error()) return;
  Result<Placement> placement = read_placement(pod, *request, contract);
  if (placement.has_error()) return;
  claim.request = std::move(*request);
  claim.placement = std::move(*placement);
  claim.drift = DriftKind::kChangedAnnotations;
}

constexpr std::int64_t kBytesPerMiB = std::int64_t{1} << 20;
// A bound for each amount of a container, a pod and a node, so that the sum of four million pods
// does not overflow.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 40;

// `unreadable` is the value of an amount that cannot be read: it has too many digits or too large
// an exponent, since the API server accepts neither negative amounts nor other text.
std::int64_t scaled(const kube::StringMap& amounts, std::string_view resource, int power,
                    std::int64_t unreadable) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_scaled_quantity(resource, found->second, power);
  return amount ? *amount : unreadable;
}

// What is requested counts as more than any node has, if it cannot be read.
NodeResources requested(const kube::StringMap& amounts) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const std::int64_t bytes = scaled(amounts, "memory", 0, kAll);
  const std::int64_t mib = bytes / kBytesPerMiB + (bytes % kBytesPerMiB == 0 ? 0 : 1);
  return {MilliCpu(std::min(scaled(amounts, "cpu", 3, kAll), kAmountMax)),
          MiB(std::min(mib, kAmountMax))};
}

// Rounded down, where requests are rounded up: what fits here fits in kube-scheduler, too. Nothing,
// if it cannot be read.
NodeResources allocatable_of(const kube::Node& node) {
  return {MilliCpu(std::min(scaled(node.allocatable, "cpu", 3, 0), kAmountMax)),
          MiB(std::min(scaled(node.allocatable, "memory", 0, 0) / kBytesPerMiB, kAmountMax))};
}

NodeResources requests_of(const kube::Container& container) {
  NodeResources requests = requested(container.requests);
  const NodeResources limits = requested(container.limits);
  if (!container.requests.contains("cpu")) requests.cpu = limits.cpu;
  if (!container.requests.contains("memory")) requests.memory = limits.memory;
  return requests;
}

// While a pod is resized, the most of what it requests and of what its node has given to it
// (component-helpers/resource/helpers.go: determineEffectiveRequests).
NodeResources effective(const NodeResources& requests,
                        const std::optional<kube::GivenResources>& given, bool infeasible) {
  if (!given) return requests;
  const NodeResources now = max_of(requested(given->requests), requested(given->allocated));
  return infeasible ? now : max_of(requests, now);
}

// The status of each container that has resources, by name.
using Statuses = std::unordered_map<std::string_view, const kube::ContainerStatus*>;

NodeResources requests_of(const kube::Container& container, const Statuses& statuses,
                          bool infeasible) {
  const auto status = statuses.find(container.name);
  if (status == statuses.end()) return requests_of(container);
  return effective(requests_of(container), status->second->given, infeasible);
}

// --- nodes ---------------------------------------------------------------------------------------

Result<std::int64_t> capacity_of(const kube::Node& node, const std::string& resource) {
  const auto amount = node.capacity.find(resource);
  if (amount == node.capacity.end()) return std::int64_t{0};
  return parse_whole_quantity("capacity " + resource, amount->second);
}

std::vector<CardFacts> equal_cards(std::int64_t count, MiB memory) {
  std::vector<CardFacts> cards(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < cards.size(); ++i) {
    cards[i].index = CardIndex(static_cast<std::int32_t>(i));
    cards[i].memory = memory;
  }
  return cards;
}

// A remainder of less than a card, or of less than a MiB for each, is not offered.
Result<std::vector<CardFacts>> cards_by_capacity(const kube::Node& node, const Contract& contract) {
  const Result<std::int64_t> core = capacity_of(node, contract.core_resource);
  if (core.has_error()) return core.error();
  const Result<std::int64_t> memory = capacity_of(node, contract.memory_resource);
  if (memory.has_error()) return memory.error();
  if (*core == 0) return std::vector<CardFacts>();
  const std::int64_t count = *core / kWholeCard.value();
  if (count < 1 || count > static_cast<std::int64_t>(kCardsPerNodeMax)) {
    return error(fmt::format("capacity {} is {}, expected 100 for each of 1 to {} cards",
                             contract.core_resource, *core, kCardsPerNodeMax));
  }
  if (*memory / count > kCardMemoryMiBMax) {
    return error(fmt::format("capacity {} is {}, expected at most {} for each of {} cards",
                             contract.memory_resource, *memory, kCardMemoryMiBMax, count));
  }
  return equal_cards(count, MiB(*memory / count));
}

// A policy that cannot be used is ignored, and the profile has the reason.
void check_policy(NodeProfile& profile) {
  if (profile.policy.empty()) return;
  const auto policy = find_policy(profile.policy);
  if (policy) return;
  profile.problem =
      cut(fmt::format("profile {}: {}", in_quotes(profile.name), policy.error().message));
  profile.policy.clear();
}

// The plugin writes the annotation soon. The node may have been registered again: then cards with
// the indices of the capacity may not exist, or not be healthy.
bool has_plugin(const kube::Node& node) {
  return std::ranges::find(node.conditions, kReadyCondition, &kube::Condition::type) !=
         node.conditions.end();
}

Result<NodeCards> cards_of(const kube::Node& node, const Contract& contract) {
  const auto annotation = node.metadata.annotations.find(contract.node_cards);
  if (annotation == node.metadata.annotations.end()) {
    if (has_plugin(node)) return NodeCards();
    auto cards = cards_by_capacity(node, contract);
    if (!cards) return cards.error();
    return NodeCards{*std::move(cards), {}, {}};
  }
  Result<NodeCards> cards = parse_node_annotation(annotation->second);
  if (cards.has_error())
    return error(fmt::format("annotation {}: {}", contract.node_cards, cards.error().message));
  return cards;
}

}  // namespace

std::string group_name(const kube::Pod& pod) {
  if (!pod.pod_group.empty()) return pod.metadata.name_space + "/" + pod.pod_group;
  for (const char* label : {"scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"}) {
    const auto group = pod.metadata.labels.find(label);
    if (group != pod.metadata.labels.end()) return pod.metadata.name_space + "/" + group->second;
  }
  return {};
}

std::optional<Claim> claim_of(const kube::Pod& pod, const Contract& contract) {
  MGPU_CHECK(!pod.node_name.empty(), "a claim needs a bound pod");
  if (!asks_for_cards(pod, contract)) return std::nullopt;
  Claim claim;
  claim.pod = pod.ref();
  claim.uid = pod.uid();
  claim.node = NodeName(pod.node_name);
  claim.priority = pod.priority;
  claim.start_time = pod.start_time;
  claim.labels = pod.metadata.labels;
  claim.anti_affinity = pod.anti_affinity;
  claim.group = group_name(pod);
  claim.in_pod_group = !pod.pod_group.empty();
  claim.terminating = pod.metadata.being_deleted;
  claim.ends_soon = claim.terminating && pod.metadata.deletion_grace_seconds.value_or(
                                             kEndsSoonSeconds + 1) <= kEndsSoonSeconds;
  claim.resources = resources_of(pod);
  read_request_and_cards(claim, pod, contract);
  if (!claim.placement) read_cards_by_indices(claim, pod, contract);
  if (claim.placement) return claim;
  if (const auto most = most_of_one_card(pod, contract)) claim.most_of_one_card = *most;
  return claim;
}

void keep_cards(const Claim& first, Claim& shown) {
  const bool same =
      first.placement == shown.placement && first.request.containers == shown.request.containers;
  if (!same && first.placement) {
    set_drift(shown, DriftKind::kChangedAnnotations,
              fmt::format("the annotations were changed after the pod was bound; it still counts "
                          "with its cards of then, {}{}",
                          cards_text(first),
                          (shown.drift_detail.empty() ? "" : ": " + shown.drift_detail)));
  }
  if (!first.placement) set_drift(shown, first.drift, first.drift_detail);
  shown.request.containers = first.request.containers;
  shown.placement = first.placement;
  shown.most_of_one_card = first.most_of_one_card;
}

NodeFacts node_facts_of(const kube::Node& node, const Contract& contract) {
  NodeFacts facts;
  facts.name = NodeName(node.metadata.name);
  facts.allocatable = allocatable_of(node);
  facts.gates = gates_of(node);
  facts.by_capacity = !node.metadata.annotations.contains(contract.node_cards);
  facts.pods_allowed = std::min(scaled(node.allocatable, "pods", 0, 0), kAmountMax);
  Result<NodeCards> cards = cards_of(node, contract);
  if (cards.has_error()) {
    facts.problem = cut(cards.error().message);
  } else {
    facts.cards = std::move(cards->cards);
    facts.profile = std::move(cards->profile);
    facts.links = std::move(cards->links);
    check_policy(facts.profile);
  }
  const auto cordoned = node.metadata.annotations.find(contract.cordoned_cards);
  if (cordoned == node.metadata.annotations.end()) return facts;
  auto indices = parse_card_indices(cordoned->second);
  if (indices) {
    facts.cordoned = std::move(*indices);
  } else if (facts.problem.empty()) {
    facts.problem =
        cut(fmt::format("annotation {}: {}", contract.cordoned_cards, indices.error().message));
  }
  return facts;
}

NodeResources resources_of(const kube::Pod& pod) {
  Statuses statuses;
  for (const kube::ContainerStatus& status : pod.container_statuses)
    if (status.given) statuses.insert_or_assign(status.name, &status);
  const auto lasting = [&](const kube::Container& container) {
    return requests_of(container, statuses, pod.resize_infeasible);
  };
  PodRequests<NodeResources> requests;
  for (const kube::Container& container : pod.init_containers) {
    container.restart_always ? requests.add_lasting(lasting(container))
                             : requests.add_init(requests_of(container));
  }
  for (const kube::Container& container : pod.containers) requests.add_lasting(lasting(container));
  NodeResources sum = requests.peak();
  // The requests of the pod as a whole count instead of those of its containers.
  const NodeResources whole = effective(requested(pod.requests), pod.given, pod.resize_infeasible);
  if (pod.requests.contains("cpu")) sum.cpu = whole.cpu;
  if (pod.requests.contains("memory")) sum.memory = whole.memory;
  sum += requested(pod.overhead);
  return {MilliCpu(std::min(sum.cpu.value(), kAmountMax)),
          MiB(std::min(sum.memory.value(), kAmountMax))};
}

}  // namespace mgpu::extender
