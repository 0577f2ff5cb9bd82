// Whether the annotations of pods and the cards of nodes agree.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/contract/gpu_request.h"
#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {
namespace {

// The indices of the cards of each node; a node without a list of cards that can be read has none.
using Cards = std::map<std::string, std::optional<std::set<std::int32_t>>>;

Cards cards_by_node(const Facts& facts) {
  Cards cards;
  if (!facts.nodes.known()) return cards;
  for (const NodeFacts& node : facts.nodes.value()) {
    auto& known = cards[node.name];
    const auto text = node.annotations.find(facts.contract.node_cards);
    if (text == node.annotations.end()) continue;
    const auto read = parse_node_cards(text->second);
    if (!read) continue;
    known.emplace();
    for (const CardFacts& card : *read) known->insert(card.index.value());
  }
  return cards;
}

struct PodCheck {
  const Facts& facts;
  const Cards& cards;
  Findings& findings;
  std::set<PodRef>& reported;

  void add(const kube::Pod& pod, Level level, std::string what, Advice remedy) const {
    reported.insert(pod.ref());
    add_grouped(findings, to_string(pod.ref()), level, std::move(what), std::move(remedy));
  }
};

void check_cards_of(const PodCheck& check, const kube::Pod& pod, const Placement& placement) {
  // Without all nodes it is not known which ones exist.
  if (!check.facts.nodes.known() || !check.facts.node_selector.empty()) return;
  const auto node = check.cards.find(pod.node_name);
  if (node == check.cards.end()) {
    return check.add(pod, Level::kError, "a pod with cards is bound to a node that does not exist",
                     kDeleteMoved);
  }
  if (!node->second) return;
  for (const auto& container : placement.cards_of) {
    for (const CardIndex card : container) {
      if (node->second->contains(card.value())) continue;
      return check.add(pod, Level::kError,
                       "the annotations of a pod name a card that its node does not have",
                       kDeleteMoved);
    }
  }
}

Result<Placement> placement_of(const kube::Pod& pod, const Contract& contract) {
  const auto request = read_bound_containers(pod, contract);
  if (!request) return request.error();
  return read_placement(pod, *request, contract);
}

void check_bound(const PodCheck& check, const GpuPod& gpu) {
  const kube::Pod& pod = gpu.pod;
  const Contract& contract = check.facts.contract;
  const auto any = most_of_one_card(pod, contract);
  if (any && any->zero()) return;
  if (!has_placement_annotation(pod, contract)) {
    return check.add(pod, Level::kError,
                     "a pod with cards was bound without annotations, so that the extender did not "
                     "bind it",
                     kDeleteUnbound);
  }
  const auto placement = placement_of(pod, contract);
  if (!placement) {
    return check.add(pod, Level::kError,
                     fmt::format("the annotations of a bound pod do not match its request: {}",
                                 placement.error().message),
                     kDeletePod);
  }
  check_cards_of(check, pod, *placement);
}

void check_waiting(const PodCheck& check, const GpuPod& gpu) {
  if (!has_placement_annotation(gpu.pod, check.facts.contract)) return;
  check.add(gpu.pod, Level::kWarning, "a pod has the annotations of a bound pod, and no node",
            kCorrectManifest);
}

// What the extender found, except for pods that were reported.
void check_drift(const PodCheck& check) {
  std::int64_t overfull = 0;
  for (const ReplicaFacts& replica : check.facts.replicas) {
    if (!replica.cluster.known()) continue;
    overfull = std::max(overfull, replica.cluster->cards_overfull);
    for (const Drifting& drift : replica.cluster->drift) {
      if (!check.reported.insert(drift.pod).second) continue;
      add_grouped(check.findings, to_string(drift.pod), Level::kError,
                  fmt::format("the extender reports drift ({}): {}", drift.kind, drift.detail),
                  kDeleteDrifting);
    }
  }
  if (overfull == 0) return;
  check.findings.push_back({Level::kError,
                            fmt::format("{} cards have more in use than they have", overfull),
                            kDeleteOverfull});
}

}  // namespace

bool has_placement_annotation(const kube::Pod& pod, const Contract& contract) {
  return std::ranges::any_of(pod.metadata.annotations, [&](const auto& annotation) {
    return annotation.first == contract.assumed ||
           annotation.first.starts_with(contract.index_prefix);
  });
}

Findings check_pods(const Facts& facts) {
  Findings findings;
  std::set<PodRef> reported;
  const Cards cards = cards_by_node(facts);
  const PodCheck check{facts, cards, findings, reported};
  if (known_or_add(facts.bound_pods, findings)) {
    for (const GpuPod& pod : facts.bound_pods.value()) check_bound(check, pod);
  }
  if (known_or_add(facts.waiting_pods, findings)) {
    for (const GpuPod& pod : facts.waiting_pods.value()) check_waiting(check, pod);
  }
  check_drift(check);
  const std::size_t bound = facts.bound_pods.known() ? facts.bound_pods->size() : 0;
  return or_ok(std::move(findings),
               "the annotations and the cards agree, for " + count_text(bound, "bound pod"));
}

}  // namespace mgpu::kubectl
