#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/contract/container_kind.h"
#include "extender/inspect/nearest_nodes.h"
#include "extender/inspect/pending_text.h"
#include "extender/inspect/views.h"
#include "extender/placement/explain.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/preemption/preemption.h"
#include "extender/placement/reason.h"
#include "extender/placement/score.h"
#include "extender/placement/simulate.h"
#include "extender/verbs/named_cards.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

Json request_json(const GpuRequest& request) {
  Json containers = Json::array();
  for (const ContainerRequest& container : request.containers) {
    containers.push_back({{"name", container.name},
                          {"kind", to_string(container.kind)},
                          {"cards", container.cards},
                          {"core", container.per_card.core.value()}});
    if (!container.whole) containers.back()["memoryMiB"] = container.per_card.memory.value();
  }
  Json out = {{"containers", std::move(containers)}};
  if (request.links != LinkPreference::kPreferred) out["links"] = to_string(request.links);
  return out;
}

namespace {

Json card_json(const GpuRequest& request, const CardExplanation& card, const Healths& healths) {
  Json out = {{"index", card.card.value()},
              {"container", request.containers[card.container].name},
              {"fits", card.fits}};
  out["core"] = {{"asked", card.asked.core.value()}, {"free", card.room.core.value()}};
  out["memoryMiB"] = {{"asked", card.asked.memory.value()}, {"free", card.room.memory.value()}};
  if (!card.fits) out["why"] = card.why;
  if (card.why == kUnhealthy) out["why"] = fmt::format("{}: {}", kUnhealthy, healths.at(card.card));
  return out;
}

Json node_json(const GpuRequest& request, const NodeExplanation& node, const Healths& healths,
               bool resources) {
  Json out = {{"name", node.node.str()}, {"fits", node.placement.has_value()}};
  if (node.placement) {
    Json& placement = out["placement"] = placement_json(request, *node.placement);
    for (std::size_t i = 0; i < node.links.size(); ++i)
      if (node.links[i]) placement[i]["link"] = to_string(*node.links[i]);
  }
  if (node.reason) {
    out["reason"] = sentence(*node.reason, request);
    out["evictionCanHelp"] = eviction_can_help(*node.reason);
  }
  if (!resources) out["cpuOrMemoryMissing"] = true;
  out["cards"] = Json::array();
  for (const auto& card : node.cards) out["cards"].push_back(card_json(request, card, healths));
  return out;
}

struct Outcomes {
  // How many nodes filter would refuse for each reason. Those that fit are counted under nullopt.
  std::map<std::optional<Reason>, std::size_t> of_cards;
  // How many others keep the pod out.
  std::map<Gate, std::size_t> kept_out;
};

// Takes the nodes of one explanation one after the other, until its bounds are reached. Each node
// is copied under the ledger's lock and searched without it.
class Explanation {
 public:
  // `own_claim` is what the pod holds, if anything.
  Explanation(const LedgerReader& ledger, const PodRequest& pod, const kube::NodeRules& rules,
              std::optional<ClaimView> own_claim, const ExplainBounds& bounds)
      : ledger_(ledger),
        pod_(pod),
        rules_(rules),
        own_claim_(std::move(own_claim)),
        bounds_(bounds) {}

  // Explains the nodes of the page, at least one, and returns the last one that it has explained.
  std::optional<NodeName> explain_nodes(const std::vector<NodeName>& names,
                                        const PriceSnapshot* price_snapshot, Json& out) {
    SearchBudget budget{bounds_.steps};
    std::optional<NodeName> last;
    std::size_t rows = 0;
    for (const NodeName& name : names) {
      if (last && (rows >= bounds_.rows || !may_go_on(budget))) break;
      const NodeForPod found = node_of(name);
      const auto explained = explain_node(found, price_snapshot, budget);
      rows += explained.cards.size();
      out.push_back(node_json(pod_.request, explained, found.healths,
                              may_have_resources_for(found.available(), pod_.resources)));
      if (const auto gate = gate_of(name)) {
        out.back().erase("placement");
        out.back().update({{"fits", false},
                           {"reason", sentence(*gate)},
                           {"evictionCanHelp", false},
                           {"keptOut", true}});
      }
      last = name;
    }
    return last;
  }

  // Fewer than `names` where a bound was reached. The nodes that the pod does not fit are compared
  // by `nearest`.
  Outcomes outcomes_of(const std::vector<NodeName>& names, NearestNodes& nearest) {
    Outcomes outcomes;
    SearchBudget budget{bounds_.steps};
    for (const NodeName& name : names) {
      if (!may_go_on(budget)) break;
      if (const auto gate = gate_of(name)) {
        ++outcomes.kept_out[*gate];
        continue;
      }
      const auto found = found_without_pod(name);
      const auto reason = found ? why_not_on(*found, budget) : Reason::kNodeUnknown;
      ++outcomes.of_cards[reason];
      if (found && reason) nearest.examine(found->available());
    }
    return outcomes;
  }

  // How the policy ranks the pod's own node now, among all nodes that fit, as if the pod were not
  // bound.
  void rank(const std::vector<NodeName>& names, const std::string& own,
            const PriceSnapshot* price_snapshot, Json& out) {
    SearchBudget budget{bounds_.steps};
    std::optional<std::size_t> own_at;
    std::vector<std::string> fitting;
    std::vector<Scored> scores;
    for (const NodeName& name : names) {
      if (!may_go_on(budget)) return;
      const auto found = found_without_pod(name);
      if (!found || gate_of(name)) continue;
      const Scored scored =
          score_of(found->available(), pod_.context(price_snapshot), pod_.policy, budget);
      if (!scored.fits || !may_have_resources_for(found->available(), pod_.resources)) continue;
      if (name.str() == own) own_at = fitting.size();
      fitting.push_back(name.str());
      scores.push_back(scored);
    }
    out = {{"nodesFitting", fitting.size()}};
    if (!own_at) return;
    make_comparable(scores);
    const auto before = [&](std::size_t a, std::size_t b) {
      if (better(scores[a], scores[b])) return true;
      return !better(scores[b], scores[a]) &&
             pod_.ties.place(fitting[a]) < pod_.ties.place(fitting[b]);
    };
    std::vector<std::size_t> order(fitting.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto first = std::ranges::min_element(order, before);
    out["rank"] =
        std::ranges::count_if(order, [&](std::size_t one) { return before(one, *own_at); }) + 1;
    out["best"] = fitting[*first];
  }

 private:
  std::optional<Gate> gate_of(const NodeName& name) const {
    return ledger_.gate_of(name.str(), rules_);
  }

  NodeExplanation explain_node(const NodeForPod& found, const PriceSnapshot* price_snapshot,
                               SearchBudget& budget) const {
    auto explained =
        explain(found.available(), pod_.context(price_snapshot), *pod_.policy.card, budget);
    if (explained.reason && found.with_reservations)
      explained.reason = why_not(found.node, pod_.request, budget).value_or(Reason::kNominated);
    return explained;
  }

  std::optional<Reason> why_not_on(const NodeForPod& found, SearchBudget& budget) const {
    return found.with_reservations
               ? why_not(found.node, *found.with_reservations, pod_.request, budget)
               : why_not(found.node, pod_.request, budget);
  }

  // A copy of the node as if the pod, where it is bound, were not on it. Nothing if the API
  // server has no such node.
  std::optional<NodeForPod> found_without_pod(const NodeName& name) const {
    auto found = ledger_.node_for(name.str(), pod_.pod);
    if (!found || !own_claim_ || own_claim_->claim.node != name) return found;
    Candidate own;
    own.holds = own_claim_->holds;
    own.resources = own_claim_->claim.resources;
    evict(found->node, own);
    if (found->with_reservations) evict(*found->with_reservations, own);
    return found;
  }

  // A node that the API server does not have has no cards.
  NodeForPod node_of(const NodeName& name) const {
    auto found = found_without_pod(name);
    if (found) return *std::move(found);
    NodeForPod absent;
    absent.node.name = name;
    return absent;
  }

  // With less than one node may take, the answer would be that the search ended at its bound.
  bool may_go_on(const SearchBudget& budget) const {
    return budget.steps >= kPlacementStepsMax && bounds_.go_on();
  }

  const LedgerReader& ledger_;
  const PodRequest& pod_;
  const kube::NodeRules& rules_;
  const std::optional<ClaimView> own_claim_;
  const ExplainBounds& bounds_;
};

void set_outcomes(Json& out, const GpuRequest& request, const Outcomes& outcomes,
                  std::size_t nodes) {
  const auto fitting = outcomes.of_cards.find(std::nullopt);
  out["nodesFitting"] = fitting == outcomes.of_cards.end() ? 0 : fitting->second;
  out["reasons"] = Json::array();
  std::size_t examined = 0;
  for (const auto& [gate, count] : outcomes.kept_out) {
    examined += count;
    out["reasons"].push_back(kept_out_json(gate, count));
  }
  for (const auto& [reason, count] : outcomes.of_cards) {
    examined += count;
    if (!reason) continue;
    out["reasons"].push_back({{"reason", sentence(*reason, request)},
                              {"nodes", count},
                              {"evictionCanHelp", eviction_can_help(*reason)}});
  }
  if (examined == nodes) return;
  out["nodesNotExamined"] = nodes - examined;
  out["message"] = fmt::format(
      "the explanation ended at its limit of steps or time: {} of {} nodes were not examined",
      nodes - examined, nodes);
}

// What the pod holds: its claim by this name, unless that is of an earlier pod.
std::optional<ClaimView> own_claim(const LedgerReader& ledger, const kube::Pod& pod) {
  auto claim = ledger.claim(pod.ref());
  if (claim && (pod.metadata.uid.empty() || claim->claim.uid != pod.uid())) claim.reset();
  return claim;
}

// The first resource of the pod that looks like one for GPUs, and is not mgpu's; empty if there is
// none.
std::string other_gpu_resource(const kube::Pod& pod, const Contract& contract) {
  constexpr std::string_view kParts[] = {"gpu", "vcuda", "nvidia.com/mig-"};
  for (const auto* containers : {&pod.containers, &pod.init_containers}) {
    for (const kube::Container& container : *containers) {
      for (const auto* resources : {&container.limits, &container.requests}) {
        for (const auto& [name, amount] : *resources) {
          const auto is_in_name = [&](auto part) { return name.find(part) != name.npos; };
          const bool is_own = name == contract.core_resource || name == contract.memory_resource;
          if (!is_own && std::ranges::any_of(kParts, is_in_name)) return name;
        }
      }
    }
  }
  return "";
}

std::string why_no_cards(const kube::Pod& pod, const Contract& contract) {
  const std::string resource = other_gpu_resource(pod, contract);
  if (resource.empty()) return "the pod requests no cards";
  return fmt::format(
      "the pod asks for {}, which mgpu does not give; it gives {} and {}, and kubectl mgpu convert "
      "rewrites manifests of other projects",
      resource, contract.core_resource, contract.memory_resource);
}

// About an annotation that has no effect, such as gpu-modell; empty if there is none.
std::string unknown_annotation(const kube::Pod& pod, const Contract& contract) {
  const std::set<std::string> known = {contract.container_multiple_gpu,
                                       contract.policy,
                                       contract.gpu_model,
                                       contract.gpu_model_exclude,
                                       contract.gpu_uuid,
                                       contract.gpu_uuid_exclude,
                                       contract.gpu_links,
                                       contract.assumed};
  for (const auto& [key, value] : pod.metadata.annotations) {
    const bool is_own = key.starts_with(contract.domain + "/");
    if (!is_own || known.contains(key) || key.starts_with(contract.index_prefix)) continue;
    return fmt::format("mgpu does not know the annotation {}, and ignores it", key);
  }
  return "";
}

void explain_all(Json& out, const VerbContext& context, const PodRequest& pod,
                 const kube::Pod& object, const Page& page, const ExplainBounds& bounds,
                 std::size_t group_pods) {
  const LedgerReader& ledger = context.ledger.reader();
  const VerbOptions& options = context.options;
  Explanation explanation(ledger, pod, object.node_rules, own_claim(ledger, object), bounds);
  NearestNodes nearest(ledger, pod, {options.min_core, options.min_memory}, bounds.steps);
  const std::vector<NodeName> names = ledger.node_names();
  const PageOfNodes cut = cut_page(names, page);
  Json nodes = Json::array();
  // The page comes first, so that each page explains a node, however much all others take.
  const auto price_snapshot = context.prices.current();
  const auto last = explanation.explain_nodes(cut.names, price_snapshot.get(), nodes);
  const Outcomes outcomes = explanation.outcomes_of(names, nearest);
  set_outcomes(out, pod.request, outcomes, names.size());
  std::string note = unmatched_names(ledger, pod.request.selector, options.contract);
  const auto& of_cards = outcomes.of_cards;
  const bool waits = object.node_name.empty() && !of_cards.contains(std::nullopt);
  if (note.empty() && waits && of_cards.contains(Reason::kNoCardMatches)) {
    note = "the models of the cluster's cards are " + models_of(ledger);
  }
  const std::string ignored = unknown_annotation(object, options.contract);
  if (!note.empty() && !ignored.empty()) note += ". ";
  note += ignored;
  if (!note.empty()) out["message"] = std::move(note);
  if (object.node_name.empty()) {
    set_not_considered(out, object);
    nearest.set(out);
    if (group_pods > 1 && !waits)
      out["group"] = group_json(context, pod, object.node_rules, group_pods, bounds);
  } else {
    explanation.rank(names, object.node_name, price_snapshot.get(), out["now"]);
  }
  out["nodes"] = std::move(nodes);
  const bool all = !last || *last == cut.names.back();
  const std::string next = all ? cut.next : last->str();
  if (!next.empty()) out["next"] = next;
}

}  // namespace

Json kept_out_json(Gate gate, std::size_t nodes) {
  return {
      {"reason", sentence(gate)}, {"nodes", nodes}, {"evictionCanHelp", false}, {"keptOut", true}};
}

void set_not_considered(Json& out, const kube::Pod& pod) {
  const auto has_host_port = [](const kube::Container& one) { return one.host_port; };
  std::vector<std::string> rules;
  if (!are_read(pod.node_rules)) {
    rules.push_back("its node selector, affinity and tolerations, which are too long");
  }
  if (pod.constrained)
    rules.push_back("its rules about other pods, shared volumes and resource claims");
  if (std::ranges::any_of(pod.containers, has_host_port)) rules.push_back("its host ports");
  if (!rules.empty()) {
    out["notConsidered"] =
        fmt::format("of the pod, {} were not considered", fmt::join(rules, ", and "));
  }
}

Json explanation_of(const VerbContext& context, const kube::Pod& pod, const Page& page,
                    const ExplainBounds& bounds, std::size_t group_pods) {
  Json out = {{"namespace", pod.metadata.name_space}, {"name", pod.metadata.name}};
  if (!pod.node_name.empty()) out["node"] = pod.node_name;
  auto read = read_pod_request(pod, context.options);
  out["request"] = request_json(read ? read->request : GpuRequest());
  if (pod.finished() || !read || read->request.empty()) {
    out["message"] = pod.finished() ? "the pod has finished and holds no cards"
                     : read         ? why_no_cards(pod, context.options.contract)
                                    : read.error().message;
    set_outcomes(out, {}, {}, 0);
    out["nodes"] = Json::array();
    return out;
  }
  out["policy"] = std::string(read->policy.node->name) + "/" + std::string(read->policy.card->name);
  // A pod that does not exist yet: nothing is reserved for it, and it may take no card of others.
  if (read->pod.uid.empty()) read->pod.uid = PodUid("none");
  explain_all(out, context, *read, pod, page, bounds, group_pods);
  return out;
}

http::Response explain_view(const VerbContext& context, const kube::Pod& pod, const Page& page,
                            const ExplainBounds& bounds, std::size_t group_pods) {
  Json out = explanation_of(context, pod, page, bounds, group_pods);
  const bool asks =
      out.contains("policy") || out.at("message") != why_no_cards(pod, context.options.contract);
  if (pod.node_name.empty() && !pod.finished() && asks) {
    const PendingAnswer answer = pending_answer(out, true);
    out["pending"] = {{"why", answer.why}, {"help", answer.help}, {"ways", answer.ways}};
  }
  return json_response(out);
}

}  // namespace mgpu::extender
