#include <map>
#include <optional>
#include <string>
#include <utility>

#include "extender/inspect/views.h"
#include "extender/placement/explain.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/reason.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

namespace {

Json request_json(const GpuRequest& request) {
  Json containers = Json::array();
  for (const ContainerRequest& container : request.containers) {
    containers.push_back({{"name", container.name},
                          {"kind", kind_name(container.kind)},
                          {"cards", container.cards},
                          {"core", container.per_card.core.value()}});
    if (!container.whole) containers.back()["memoryMiB"] = container.per_card.memory.value();
  }
  return {{"containers", std::move(containers)}};
}

Json placement_json(const GpuRequest& request, const Placement& placement) {
  Json out = Json::array();
  for (std::size_t i = 0; i < placement.cards_of.size(); ++i) {
    out.push_back(
        {{"container", request.containers[i].name}, {"cards", indices(placement.cards_of[i])}});
  }
  return out;
}

Json card_json(const GpuRequest& request, const CardExplanation& card) {
  Json out = {{"index", card.card.value()},
              {"container", request.containers[card.container].name},
              {"fits", card.fits}};
  out["core"] = {{"asked", card.asked.core.value()}, {"free", card.room.core.value()}};
  out["memoryMiB"] = {{"asked", card.asked.memory.value()}, {"free", card.room.memory.value()}};
  if (!card.fits) out["why"] = card.why;
  return out;
}

Json node_json(const GpuRequest& request, const NodeExplanation& node) {
  Json out = {{"name", node.node.str()}, {"fits", node.placement.has_value()}};
  if (node.placement) out["placement"] = placement_json(request, *node.placement);
  if (node.reason) {
    out["reason"] = sentence(*node.reason);
    out["evictionCanHelp"] = eviction_can_help(*node.reason);
  }
  out["cards"] = Json::array();
  for (const auto& card : node.cards) out["cards"].push_back(card_json(request, card));
  return out;
}

// How many nodes filter would refuse for each reason. Those that fit are counted under nullopt.
using Outcomes = std::map<std::optional<Reason>, std::size_t>;

Outcomes outcomes_of(Ledger& ledger, const std::vector<NodeName>& names, const GpuRequest& request,
                     Instant now) {
  Outcomes outcomes;
  SearchBudget budget{kFilterStepsMax};
  ledger.read(now, [&](const View& view) {
    for (const NodeName& name : names) {
      const Node* node = view.find(name.str());
      ++outcomes[node ? why_not(*node, request, budget) : Reason::kNodeUnknown];
    }
  });
  return outcomes;
}

void set_outcomes(Json& out, const Outcomes& outcomes) {
  const auto fitting = outcomes.find(std::nullopt);
  out["nodesFitting"] = fitting == outcomes.end() ? 0 : fitting->second;
  out["reasons"] = Json::array();
  for (const auto& [reason, nodes] : outcomes) {
    if (!reason) continue;
    out["reasons"].push_back({{"reason", sentence(*reason)},
                              {"nodes", nodes},
                              {"evictionCanHelp", eviction_can_help(*reason)}});
  }
}

// Each node is copied under the ledger's lock and searched without it.
void set_nodes(Json& out, const Ledger& ledger, const PageOfNodes& page, const PodRequest& pod,
               const PriceSnapshot* price_snapshot) {
  out["nodes"] = Json::array();
  for (const NodeName& name : page.names) {
    const auto view = ledger.node(name);
    if (!view) continue;
    const auto explained = explain(view->node, pod.context(price_snapshot), *pod.policy.card);
    out["nodes"].push_back(node_json(pod.request, explained));
  }
  if (!page.next.empty()) out["next"] = page.next;
}

}  // namespace

http::Response explain_view(Ledger& ledger, const Settings& settings, const kube::Pod& pod,
                            const Page& page, Instant now) {
  Json out = {{"namespace", pod.metadata.name_space}, {"name", pod.metadata.name}};
  if (!pod.node_name.empty()) out["node"] = pod.node_name;
  const auto read = read_pod_request(pod, settings);
  out["request"] = request_json(read ? read->request : GpuRequest());
  if (!read || read->request.empty()) {
    out["message"] = read ? "the pod requests no cards" : read.error().message;
    set_outcomes(out, {});
    out["nodes"] = Json::array();
    return json_response(out);
  }
  out["policy"] = std::string(read->policy.node->name) + "/" + std::string(read->policy.card->name);
  const std::vector<NodeName> names = ledger.node_names();
  set_outcomes(out, outcomes_of(ledger, names, read->request, now));
  set_nodes(out, ledger, cut_page(names, page), *read, settings.price_snapshot().get());
  return json_response(out);
}

}  // namespace mgpu::extender
