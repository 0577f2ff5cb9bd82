#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extender/inspect/limits.h"
#include "extender/inspect/nearest_nodes.h"
#include "extender/inspect/pending_text.h"
#include "extender/inspect/views.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/simulate.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {
namespace {

using KeptOut = std::map<Gate, std::size_t>;

// The nodes with cards, sorted by name, in which what is reserved for nominated pods is used. Those
// that keep the pod out are only counted.
std::vector<Node> nodes_for(const LedgerReader& ledger, const DecidedPod& pod,
                            const kube::NodeRules& rules, KeptOut& kept_out) {
  std::vector<Node> nodes;
  std::vector<NodeName> names = ledger.node_names();
  std::ranges::sort(names);
  for (const NodeName& name : names) {
    auto found = ledger.node_for(name.str(), pod);
    if (!found) continue;
    Node& node = found->with_reservations ? *found->with_reservations : found->node;
    if (node.cards.empty()) continue;
    if (const auto gate = ledger.gate_of(name.str(), rules)) {
      ++kept_out[*gate];
    } else {
      nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

// A run of the simulation, and what it has found.
class Run {
 public:
  Run(Simulation& simulation, const ExplainBounds& bounds)
      : simulation_(simulation), bounds_(bounds), budget_{bounds.steps} {}

  // Places the replicas, and then as many more as fit, up to `most` in all.
  void place_all(std::size_t replicas, std::size_t most) {
    if (!simulation_.begin(budget_, bounds_.go_on)) {
      ended_ = true;
      return;
    }
    while (fitting_ < most) {
      if (budget_.steps < kPlacementStepsMax || !bounds_.go_on()) {
        ended_ = true;
        return;
      }
      auto pod = simulation_.place_next(budget_);
      if (!pod) return;
      ++fitting_;
      if (placed_.size() < replicas) placed_.push_back(*std::move(pod));
    }
    ended_ = true;
  }

  std::size_t fitting() const { return fitting_; }
  bool ended() const { return ended_; }  // at a bound, before a pod did not fit
  const std::vector<SimulatedPod>& placed() const { return placed_; }

 private:
  Simulation& simulation_;
  const ExplainBounds& bounds_;
  SearchBudget budget_;
  std::size_t fitting_ = 0;
  bool ended_ = false;
  std::vector<SimulatedPod> placed_;
};

Json placed_json(const Simulation& simulation, const GpuRequest& request,
                 const std::vector<SimulatedPod>& placed) {
  Json out = Json::array();
  for (const SimulatedPod& pod : placed) {
    out.push_back({{"node", simulation.nodes()[pod.node].name.str()},
                   {"containers", placement_json(request, pod.placement)}});
  }
  return out;
}

// Why the next pod does not fit, counted by nodes.
Json reasons_json(const Simulation& simulation, const PodRequest& pod, const KeptOut& kept_out,
                  SearchBudget budget) {
  std::map<std::string, std::size_t> reasons;
  for (const Node& node : simulation.nodes()) {
    if (budget.steps < kPlacementStepsMax) break;
    const auto reason = why_not(node, pod.request, budget);
    const bool resources = may_have_resources_for(node, pod.resources);
    if (reason) ++reasons[std::string(sentence(*reason, pod.request))];
    if (!reason && !resources) ++reasons["too little CPU, memory or room for pods on the node"];
  }
  Json out = Json::array();
  for (const auto& [gate, nodes] : kept_out) out.push_back(kept_out_json(gate, nodes));
  for (const auto& [reason, nodes] : reasons) out.push_back({{"reason", reason}, {"nodes", nodes}});
  return out;
}

// What would help the next replica, in the words of explain.
Json pending_json(const Json& simulated, const Simulation& simulation, const VerbContext& context,
                  const PodRequest& pod, const ExplainBounds& bounds, bool all_names) {
  NearestNodes nearest(context.ledger.reader(), pod,
                       {context.options.min_core, context.options.min_memory}, bounds.steps);
  for (const Node& node : simulation.nodes()) {
    if (!bounds.go_on()) break;
    nearest.examine(node);
  }
  Json explained = simulated;
  explained["request"] = request_json(pod.request);
  explained["nodesFitting"] = 0;
  nearest.set(explained);
  const PendingAnswer answer = pending_answer(explained, all_names, "One more");
  return {{"why", answer.why}, {"help", answer.help}, {"ways", answer.ways}};
}

}  // namespace

Result<SimulateQuery> read_simulate_query(const std::string& query) {
  const auto replicas = read_count(query, "replicas", 1, kSimulateReplicasMax);
  if (!replicas) return replicas.error();
  SimulateQuery read{.replicas = *replicas};
  const std::string name = http::query_value(query, "policy");
  if (name.empty()) return read;
  const auto policy = find_policy(name);
  if (!policy) return error("query parameter policy: " + policy.error().message);
  read.policy = *policy;
  return read;
}

Json group_json(const VerbContext& context, PodRequest pod, const kube::NodeRules& rules,
                std::size_t pods, const ExplainBounds& bounds) {
  pod.pod.for_group = true;
  const auto price_snapshot = context.prices.current();
  KeptOut kept_out;
  Simulation simulation(nodes_for(context.ledger.reader(), pod.pod, rules, kept_out), pod.request,
                        pod.resources, pod.policy, pod.tie_break_seed, price_snapshot.get());
  Run run(simulation, bounds);
  run.place_all(pods, pods);
  Json out = {{"name", pod.pod.group}, {"pods", pods}, {"fitting", run.fitting()}};
  if (run.fitting() == pods || run.ended()) return out;
  Json next = {{"namespace", pod.pod.name_space}, {"policy", ""}, {"reasons", Json::array()}};
  out["pending"] = pending_json(next, simulation, context, pod, bounds, false);
  return out;
}

http::Response simulate_view(const VerbContext& context, const kube::Pod& pod,
                             const SimulateQuery& query, const ExplainBounds& bounds) {
  auto read = read_pod_request(pod, context.options);
  if (!read) return http::error_response(400, "the Pod manifest: " + read.error().message);
  if (read->request.empty())
    return http::error_response(400, "the Pod manifest: the pod requests no cards");
  if (query.policy) read->policy = *query.policy;
  // A pod that does not exist: nothing is reserved for it, and it may take no card of others.
  read->pod.uid = PodUid("none");
  const auto price_snapshot = context.prices.current();
  KeptOut kept_out;
  Simulation simulation(nodes_for(context.ledger.reader(), read->pod, pod.node_rules, kept_out),
                        read->request, read->resources, read->policy, read->tie_break_seed,
                        price_snapshot.get());
  Run run(simulation, bounds);
  run.place_all(query.replicas, kSimulatedPodsMax);
  Json out = {{"namespace", pod.metadata.name_space}, {"name", pod.metadata.name}};
  out["policy"] = std::string(read->policy.node->name) + "/" + std::string(read->policy.card->name);
  out["replicas"] = query.replicas;
  out["placed"] = run.placed().size();
  out["fitting"] = run.fitting();
  if (run.ended()) {
    out["message"] = "the simulation ended at its limit of pods, steps or time: more may fit";
  }
  set_not_considered(out, pod);
  out["placements"] = placed_json(simulation, read->request, run.placed());
  out["reasons"] = Json::array();
  if (run.ended()) return json_response(out);
  out["reasons"] = reasons_json(simulation, *read, kept_out, SearchBudget{bounds.steps});
  out["pending"] = pending_json(out, simulation, context, *read, bounds, true);
  return json_response(out);
}

}  // namespace mgpu::extender
