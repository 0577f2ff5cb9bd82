#include "extender/ledger/claim.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "common/contract/quantity.h"
#include "extender/ledger/node_resources.h"

namespace mgpu::extender {
namespace {

std::string cut(std::string_view text) {
  return std::string(cut_text(text, kKeptSentenceBytesMax));
}

// --- pods ----------------------------------------------------------------------------------------

// An amount that cannot be read counts: it may be anything.
bool names_amount(const kube::StringMap& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return false;
  const Result<std::int64_t> amount = parse_whole_quantity(resource, found->second);
  return amount.has_error() || *amount != 0;
}

bool asks(const kube::Container& container, const std::string& resource) {
  return names_amount(container.limits, resource) || names_amount(container.requests, resource);
}

bool asks_for_cards(const kube::Pod& pod, const Contract& contract) {
  const auto asks_either = [&](const kube::Container& container) {
    return asks(container, contract.core_resource) || asks(container, contract.memory_resource);
  };
  return std::ranges::any_of(pod.containers, asks_either) ||
         std::ranges::any_of(pod.init_containers, asks_either);
}

// These say where a pod would like to go. A bound pod is there already: whatever its owner writes
// into them now must not make its cards uncertain.
std::array<std::string_view, 5> wishes(const Contract& contract) {
  return {contract.policy, contract.gpu_model, contract.gpu_model_exclude, contract.gpu_uuid,
          contract.gpu_uuid_exclude};
}

bool has_wishes(const kube::Pod& pod, const Contract& contract) {
  const auto keys = wishes(contract);
  return std::ranges::any_of(
      keys, [&](std::string_view key) { return pod.metadata.annotations.contains(key); });
}

kube::Pod without_wishes(kube::Pod pod, const Contract& contract) {
  for (const std::string_view key : wishes(contract)) {
    const auto found = pod.metadata.annotations.find(key);
    if (found != pod.metadata.annotations.end()) pod.metadata.annotations.erase(found);
  }
  return pod;
}

Result<GpuRequest> request_of(const kube::Pod& pod, const Contract& contract) {
  // No least memory: another --min-memory-mib must not turn a running pod into drift.
  if (!has_wishes(pod, contract)) return read_request(pod, contract, MiB{});
  return read_request(without_wishes(pod, contract), contract, MiB{});
}

bool has_index_annotation(const kube::Pod& pod, const Contract& contract) {
  const auto first = pod.metadata.annotations.lower_bound(contract.index_prefix);
  return first != pod.metadata.annotations.end() && first->first.starts_with(contract.index_prefix);
}

void set_drift(Claim& claim, Drift drift, std::string_view detail) {
  claim.drift = drift;
  claim.drift_detail = cut(detail);
}

void read_cards(Claim& claim, const kube::Pod& pod, const Contract& contract) {
  if (!has_index_annotation(pod, contract))
    return set_drift(claim, Drift::kNoAnnotations,
                     "no annotation " + contract.index_prefix + "<container>");
  Result<Placement> placement = read_placement(pod, claim.request, contract);
  if (placement.has_error())
    return set_drift(claim, Drift::kBadAnnotations, placement.error().message);
  claim.placement = std::move(*placement);
}

Claim without_cards(const kube::Pod& pod) {
  Claim claim;
  claim.pod = pod.ref();
  claim.uid = pod.uid();
  claim.node = NodeName(pod.node_name);
  claim.priority = pod.priority;
  claim.start_time = pod.start_time;
  claim.labels = pod.metadata.labels;
  claim.host = resources_of(pod);
  return claim;
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

// What is left over of either amount, less than a card or less than a MiB each, is not offered.
Result<std::vector<CardFacts>> cards_by_capacity(const kube::Node& node, const Contract& contract) {
  const Result<std::int64_t> core = capacity_of(node, contract.core_resource);
  if (core.has_error()) return core.error();
  const Result<std::int64_t> memory = capacity_of(node, contract.memory_resource);
  if (memory.has_error()) return memory.error();
  if (*core == 0) return std::vector<CardFacts>();
  const std::int64_t count = *core / kWholeCard.value();
  if (count < 1 || count > static_cast<std::int64_t>(kCardsPerNodeMax))
    return error("capacity " + contract.core_resource + " is " + std::to_string(*core) +
                 ", expected 100 for each of 1 to " + std::to_string(kCardsPerNodeMax) + " cards");
  if (*memory / count > kCardMemoryMiBMax)
    return error("capacity " + contract.memory_resource + " is " + std::to_string(*memory) +
                 ", expected at most " + std::to_string(kCardMemoryMiBMax) + " for each of " +
                 std::to_string(count) + " cards");
  return equal_cards(count, MiB(*memory / count));
}

Result<std::vector<CardFacts>> cards_of(const kube::Node& node, const Contract& contract) {
  const auto annotation = node.metadata.annotations.find(contract.node_cards);
  if (annotation == node.metadata.annotations.end()) return cards_by_capacity(node, contract);
  Result<std::vector<CardFacts>> cards = parse_node_cards(annotation->second);
  if (cards.has_error())
    return error("annotation " + contract.node_cards + ": " + cards.error().message);
  return cards;
}

}  // namespace

std::string_view name(Drift drift) {
  switch (drift) {
    case Drift::kNone:
      return "none";
    case Drift::kNoAnnotations:
      return "no-annotations";
    case Drift::kBadAnnotations:
      return "bad-annotations";
    case Drift::kBadRequest:
      return "bad-request";
    case Drift::kUnknownCard:
      return "unknown-card";
  }
  MGPU_CHECK(false, "a drift without a name");
}

std::optional<Claim> claim_of(const kube::Pod& pod, const Contract& contract) {
  MGPU_CHECK(!pod.node_name.empty(), "a claim needs a bound pod");
  if (!asks_for_cards(pod, contract)) return std::nullopt;
  Claim claim = without_cards(pod);
  Result<GpuRequest> request = request_of(pod, contract);
  if (request.has_error()) {
    set_drift(claim, Drift::kBadRequest, request.error().message);
    return claim;
  }
  if (request->empty()) return std::nullopt;
  claim.request = std::move(*request);
  read_cards(claim, pod, contract);
  return claim;
}

NodeFacts node_facts_of(const kube::Node& node, const Contract& contract) {
  NodeFacts facts;
  facts.name = NodeName(node.metadata.name);
  facts.allocatable = allocatable_of(node);
  Result<std::vector<CardFacts>> cards = cards_of(node, contract);
  if (cards.has_error())
    facts.problem = cut(cards.error().message);
  else
    facts.cards = std::move(*cards);
  return facts;
}

}  // namespace mgpu::extender
