#include "extender/ledger/consumers.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"
#include "extender/ledger/limits.h"

namespace mgpu::extender {
namespace {

using PodPhase = PodFacts::Phase;

Result<NodeFacts> read_node_facts(std::string_view json, const Contract& contract) {
  const Result<kube::Node> node = kube::read_node(json);
  if (!node) return node.error();
  if (node->metadata.name.empty()) return error("it has no metadata.name");
  return node_facts_of(*node, contract);
}

Result<PodFacts> pod_facts_of(const Result<kube::Pod>& pod, const Contract& contract,
                              const PodEvents& events) {
  if (!pod) return pod.error();
  if (pod->metadata.uid.empty()) return error("it has no metadata.uid");
  PodFacts facts{.pod = {pod->uid(), NodeName(pod->node_name), {}, pod->anti_affinity},
                 .claim = {}};
  if (pod->finished()) facts.phase = PodPhase::kFinished;
  if (pod->finished() || pod->node_name.empty()) return facts;
  facts.phase = PodPhase::kBound;
  facts.pod.resources = resources_of(*pod);
  facts.claim = claim_of(*pod, contract);
  if (pod->phase != "Running") return facts;
  if (const auto request = read_request(*pod, contract, MiB{}))
    events.on_running(pod->ref(), facts.pod, *request);
  return facts;
}

void apply(Ledger& ledger, const PodEvents& events, PodFacts pod) {
  if (pod.phase == PodPhase::kFinished) return ledger.remove_pod(pod.pod.uid);
  // The event may be older than a bind that has happened since: the pod's attempts stay.
  if (pod.phase == PodPhase::kWaiting) return;
  if (!pod.claim) return ledger.apply_non_gpu(std::move(pod.pod));
  const auto change = ledger.apply_pod(*std::move(pod.claim));
  if (change) events.on_drift(*change);
}

void relist(Ledger& ledger, const PodEvents& events, std::vector<PodFacts> pods, bool complete) {
  std::erase_if(pods, [](const PodFacts& pod) { return pod.phase != PodPhase::kBound; });
  if (!complete) {
    for (PodFacts& pod : pods) apply(ledger, events, std::move(pod));
    return;
  }
  std::vector<Claim> claims;
  claims.reserve(static_cast<std::size_t>(
      std::ranges::count_if(pods, [](const PodFacts& pod) { return pod.claim.has_value(); })));
  std::vector<NonGpuPod> non_gpu;
  for (PodFacts& pod : pods) {
    if (pod.claim) {
      claims.push_back(*std::move(pod.claim));
    } else {
      non_gpu.push_back(std::move(pod.pod));
    }
  }
  // Unlike an assignment of {}, this returns the memory before the ledger grows.
  std::vector<PodFacts>().swap(pods);
  const auto changes = ledger.replace_pods(std::move(claims), std::move(non_gpu));
  for (const DriftChange& change : changes) events.on_drift(change);
}

Result<kube::Pod> with_uid(Result<kube::Pod> pod) {
  if (pod && pod->metadata.uid.empty()) return error("it has no metadata.uid");
  return pod;
}

NodeName nominated_node(const kube::Pod& pod) {
  return pod.finished() ? NodeName() : NodeName(pod.nominated_node);
}

void notify(const PodEvents& events, const PodFacts& pod) {
  if (pod.phase != PodPhase::kWaiting) events.on_settled(pod.pod.uid);
}

}  // namespace

kube::Consumer<NodeFacts> node_consumer(Ledger& ledger, const Contract& contract,
                                        std::function<void(const std::string&)> on_problem) {
  // A node that is registered again has its capacity before the annotation: its cards are those
  // that the plugin will name, and not the first ones.
  const auto annotated = std::make_shared<std::unordered_set<std::string>>();
  const auto check = [on_problem = std::move(on_problem), annotated](NodeFacts& node) {
    if (!node.problem.empty())
      on_problem(fmt::format("node {}: {}", node.name.str(), node.problem));
    if (node.by_capacity && annotated->contains(node.name.str())) node.cards.clear();
    if (!node.by_capacity && annotated->size() < kAnnotatedNodesMax) {
      annotated->insert(node.name.str());
    }
  };
  return {.read = [&contract](std::string_view json) { return read_node_facts(json, contract); },
          .apply =
              [&ledger, check](NodeFacts node) {
                check(node);
                ledger.apply_node(std::move(node));
              },
          .remove = [&ledger](const NodeFacts& node) { ledger.remove_node(node.name); },
          .relist =
              [&ledger, check](std::vector<NodeFacts> nodes, bool complete) {
                for (NodeFacts& node : nodes) check(node);
                if (complete) return ledger.replace_nodes(std::move(nodes));
                for (NodeFacts& node : nodes) ledger.apply_node(std::move(node));
              }};
}

kube::Consumer<kube::Pod> nomination_consumer(Reservations& reservations, NominationEvents events) {
  const auto shared = std::make_shared<const NominationEvents>(std::move(events));
  const auto apply = [&reservations, shared](const kube::Pod& pod) {
    shared->on_nominated(pod);
    reservations.nominate(pod.uid(), nominated_node(pod));
  };
  return {
      .read = [](std::string_view json) { return with_uid(kube::read_pod(json)); },
      .read_protobuf = [](std::string_view pod) { return with_uid(kube::read_pod_protobuf(pod)); },
      .apply = apply,
      // The pod may be bound, or nominated for no node.
      .remove =
          [&reservations, shared](const kube::Pod& pod) {
            shared->on_ended(pod.uid());
            reservations.nominate(pod.uid(), NodeName());
          },
      .relist =
          [&reservations, apply](const std::vector<kube::Pod>& pods, bool complete) {
            std::vector<Nominated> all;
            for (const kube::Pod& pod : pods) {
              apply(pod);
              all.emplace_back(pod.uid(), nominated_node(pod));
            }
            if (complete) reservations.replace_nominated(all);
          }};
}

kube::Consumer<PodFacts> pod_consumer(Ledger& ledger, const Contract& contract, PodEvents events) {
  const auto shared = std::make_shared<const PodEvents>(std::move(events));
  const auto facts_of = [&contract, shared](const Result<kube::Pod>& pod) {
    return pod_facts_of(pod, contract, *shared);
  };
  return {.read = [facts_of](std::string_view json) { return facts_of(kube::read_pod(json)); },
          .read_protobuf =
              [facts_of](std::string_view pod) { return facts_of(kube::read_pod_protobuf(pod)); },
          .apply =
              [&ledger, shared](PodFacts pod) {
                notify(*shared, pod);
                apply(ledger, *shared, std::move(pod));
              },
          .remove =
              [&ledger, shared](const PodFacts& pod) {
                shared->on_settled(pod.pod.uid);
                ledger.remove_pod(pod.pod.uid);
              },
          .relist =
              [&ledger, shared](std::vector<PodFacts> pods, bool complete) {
                for (const PodFacts& pod : pods) notify(*shared, pod);
                relist(ledger, *shared, std::move(pods), complete);
              }};
}

}  // namespace mgpu::extender
