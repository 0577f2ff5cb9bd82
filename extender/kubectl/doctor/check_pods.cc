// Whether the annotations of pods and the cards of nodes agree.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/text.h"
#include "common/contract/gpu_request.h"
#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {
namespace {

constexpr Remedy kDeleteMoved{
    Act::kRun, "kubectl delete pod POD --namespace NAMESPACE, unless the card or node comes back"};

Result<Placement> placement_of(At at) {
  const auto request = read_bound_containers(at.pod->pod, at.facts.contract);
  if (!request) return request.error();
  return read_placement(at.pod->pod, *request, at.facts.contract);
}

bool has_no_cards(At at) {
  const auto most = most_of_one_card(at.pod->pod, at.facts.contract);
  return most && most->zero();
}

// Without all nodes it is not known which ones exist.
bool knows_nodes(const Facts& facts) {
  return facts.nodes.known() && facts.node_selector.empty();
}

bool names_missing_card(At at) {
  const auto node = at.index.cards.find(at.pod->pod.node_name);
  if (!knows_nodes(at.facts) || node == at.index.cards.end() || !node->second) return false;
  const auto placement = placement_of(at);
  return std::ranges::any_of(placement->cards_of, [&](const auto& cards) {
    return std::ranges::any_of(
        cards, [&](CardIndex card) { return !node->second->contains(card.value()); });
  });
}

bool is_reported(const Findings& findings, const std::string& pod) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return std::ranges::find(finding.objects, pod) != finding.objects.end();
  });
}

// What the extenders found, except for pods that were reported.
Matches drifting_pods(At at) {
  std::set<PodRef> reported;
  return each(at.facts.replicas, [&](const ReplicaFacts& replica) {
    return each(items(replica.cluster).drift, [&](const Drifting& drift) {
      const std::string pod = to_string(drift.pod);
      return when(!is_reported(at.findings, pod) && reported.insert(drift.pod).second, drift.kind,
                  drift.detail)
          .about({pod});
    });
  });
}

constexpr Rule kBound[] = {needs<&Facts::bound_pods>(Level::kUnknown)};

constexpr Rule kBoundPod[] = {
    {last(Level::kError),
     "a pod with cards was bound without annotations, so that the extender did not bind it",
     to_run("kubectl delete pod POD --namespace NAMESPACE, when kube-scheduler has bindVerb in the "
            "extenders of its configuration, and ignorable: false "
            "(deploy/scheduler/kube-scheduler.yaml)"),
     [](At at) {
       return when(!has_no_cards(at) && !has_placement_annotation(at.pod->pod, at.facts.contract));
     }},
    {last(Level::kError), "the annotations of a bound pod do not match its request: {0}",
     to_run("kubectl delete pod POD --namespace NAMESPACE, so that its controller creates it "
            "again, and see that its policies are there (deploy/SECURITY.md)"),
     [](At at) {
       const auto placement = placement_of(at);
       if (placement || has_no_cards(at)) return Matches{};
       return when(true, placement.error().message);
     }},
    {last(Level::kError), "a pod with cards is bound to a node that does not exist", kDeleteMoved,
     [](At at) {
       return when(!has_no_cards(at) && knows_nodes(at.facts) &&
                   !at.index.cards.contains(at.pod->pod.node_name));
     }},
    {Level::kError, "the annotations of a pod name a card that its node does not have",
     kDeleteMoved, [](At at) { return when(!has_no_cards(at) && names_missing_card(at)); }},
};

constexpr Rule kAllPods[] = {
    needs<&Facts::waiting_pods>(Level::kUnknown),
    {Level::kWarning, "a pod has the annotations of a bound pod, and no node",
     to_change("remove them from the manifest that creates the pod, and see that the policies "
               "are there (deploy/SECURITY.md)"),
     [](At at) {
       return each(items(at.facts.waiting_pods), [&](const GpuPod& pod) {
         return when(has_placement_annotation(pod.pod, at.facts.contract))
             .about({to_string(pod.pod.ref())});
       });
     }},
    {Level::kError, "the extender reports drift ({0}): {1}",
     to_run("kubectl delete pod POD --namespace NAMESPACE, which ends it; "
            "extender/kubectl/README.md explains each kind of drift"),
     drifting_pods},
    {Level::kError, "{0} cards have more in use than they have",
     to_change("kubectl mgpu drift -A -o wide names the pods on each of them, as "
               "/inspect/node?name=NODE of the extender does, and says which to delete"),
     [](At at) {
       std::int32_t overfull = 0;
       for (const ReplicaFacts& replica : at.facts.replicas) {
         overfull = std::max(overfull, items(replica.cluster).cards_overfull);
       }
       return when(overfull > 0, overfull);
     }},
    {Level::kOk, "the annotations and the cards agree, for {0}", kNothing,
     [](At at) {
       return when(true, counted(std::ssize(items(at.facts.bound_pods)), "bound pod"));
     }},
};

}  // namespace

bool has_placement_annotation(const kube::Pod& pod, const Contract& contract) {
  return std::ranges::any_of(pod.metadata.annotations, [&](const auto& annotation) {
    return annotation.first == contract.assumed ||
           annotation.first.starts_with(contract.index_prefix);
  });
}

std::vector<Check> pod_checks() {
  return {{"pods",
           {{Each::kInstallation, kBound},
            {Each::kBoundPod, kBoundPod},
            {Each::kInstallation, kAllPods}}}};
}

}  // namespace mgpu::kubectl
