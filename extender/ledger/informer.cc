#include "extender/ledger/informer.h"

#include <optional>
#include <utility>

#include "common/kube/object_json.h"
#include "extender/ledger/claim.h"
#include "extender/ledger/host_amount.h"

namespace mgpu::ledger {
namespace {

using Kind = kube::WatchEvent::Kind;

PlainPod plain_pod_of(const kube::Pod& pod) {
  return {pod.uid(), NodeName(pod.node_name), host_of(pod)};
}

}  // namespace

// --- nodes ---------------------------------------------------------------------------------------

NodeInformer::NodeInformer(Ledger& ledger, const Contract& contract,
                           std::function<void(const std::string&)> on_problem)
    : ledger_(ledger), contract_(contract), on_problem_(std::move(on_problem)) {}

void NodeInformer::on_event(const kube::WatchEvent& event) {
  switch (event.kind) {
    case Kind::kRelistBegin:
      relisted_.clear();
      unreadable_ = 0;
      return;
    case Kind::kRelistEnd:
      return on_relisted(std::exchange(relisted_, {}));
    default:
      return on_object(event);
  }
}

void NodeInformer::on_relisted(std::vector<NodeFacts> nodes) {
  if (unreadable_ == 0) return ledger_.replace_nodes(std::move(nodes));
  for (NodeFacts& node : nodes) ledger_.apply_node(std::move(node));
}

void NodeInformer::on_unreadable(const std::string& problem) {
  ++unreadable_;
  on_problem_(problem);
}

void NodeInformer::on_object(const kube::WatchEvent& event) {
  const Result<kube::Node> node = kube::read_node(event.object);
  if (node.has_error()) return on_unreadable("a node cannot be read: " + node.error().message);
  if (node->metadata.name.empty()) return on_unreadable("a node without metadata.name");
  if (event.kind == Kind::kDelete) return ledger_.remove_node(NodeName(node->metadata.name));
  NodeFacts facts = node_facts_of(*node, contract_);
  if (!facts.problem.empty()) on_problem_("node " + facts.name.str() + ": " + facts.problem);
  if (event.kind == Kind::kRelistObject)
    relisted_.push_back(std::move(facts));
  else
    ledger_.apply_node(std::move(facts));
}

// --- pods ----------------------------------------------------------------------------------------

PodInformer::PodInformer(Ledger& ledger, const Contract& contract,
                         std::function<void(const std::string&)> on_problem,
                         std::function<void(const PodUid&)> on_settled,
                         std::function<void(const kube::Pod&)> on_bound)
    : ledger_(ledger),
      contract_(contract),
      on_problem_(std::move(on_problem)),
      on_settled_(std::move(on_settled)),
      on_bound_(std::move(on_bound)) {}

void PodInformer::on_event(const kube::WatchEvent& event) {
  switch (event.kind) {
    case Kind::kRelistBegin:
      relisted_.clear();
      relisted_plain_.clear();
      unreadable_ = 0;
      return;
    case Kind::kRelistEnd:
      return on_relisted(std::exchange(relisted_, {}), std::exchange(relisted_plain_, {}));
    default:
      return on_object(event);
  }
}

void PodInformer::on_relisted(std::vector<Claim> claims, std::vector<PlainPod> plain) {
  if (unreadable_ == 0) return ledger_.replace_pods(std::move(claims), std::move(plain));
  for (PlainPod& pod : plain) ledger_.apply_plain(std::move(pod));
  for (Claim& claim : claims) ledger_.apply_pod(std::move(claim));
}

void PodInformer::on_unreadable(const std::string& problem) {
  ++unreadable_;
  on_problem_(problem);
}

void PodInformer::on_object(const kube::WatchEvent& event) {
  const Result<kube::Pod> pod = kube::read_pod(event.object);
  if (pod.has_error()) return on_unreadable("a pod cannot be read: " + pod.error().message);
  if (pod->metadata.uid.empty())
    return on_unreadable("pod " + to_string(pod->ref()) + " has no metadata.uid");
  const bool pending = pod->node_name.empty() && !pod->finished() && event.kind != Kind::kDelete;
  if (!pending) on_settled_(pod->uid());
  if (event.kind == Kind::kRelistObject)
    on_listed(*pod);
  else
    on_changed(*pod, event.kind);
}

void PodInformer::on_listed(const kube::Pod& pod) {
  if (pod.finished() || pod.node_name.empty()) return;
  on_bound_(pod);
  if (std::optional<Claim> claim = claim_of(pod, contract_))
    relisted_.push_back(std::move(*claim));
  else
    relisted_plain_.push_back(plain_pod_of(pod));
}

void PodInformer::on_changed(const kube::Pod& pod, Kind kind) {
  if (kind == Kind::kDelete || pod.finished()) return ledger_.remove_pod(pod.uid());
  // Not bound yet, as seen before a bind that may have happened since: its attempts stay.
  if (pod.node_name.empty()) return;
  on_bound_(pod);
  std::optional<Claim> claim = claim_of(pod, contract_);
  if (claim)
    ledger_.apply_pod(std::move(*claim));
  else
    ledger_.apply_plain(plain_pod_of(pod));
}

}  // namespace mgpu::ledger
