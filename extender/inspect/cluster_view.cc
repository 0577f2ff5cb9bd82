#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/contract/container_kind.h"
#include "common/contract/contract.h"
#include "extender/inspect/limits.h"
#include "extender/inspect/views.h"
#include "extender/placement/links.h"

namespace mgpu::extender {

namespace {

// Sums of one card or of many. `free` is summed card by card, since an overfull card has none.
struct Amounts {
  Share capacity;
  Share used;
  Share free;
  Share expected;

  Amounts& operator+=(const Amounts& other) {
    capacity += other.capacity;
    used += other.used;
    free += other.free;
    expected += other.expected;
    return *this;
  }
};

Amounts amounts_of(const Card& card) {
  return {card.capacity, card.used, card.usable() ? card.room() : Share(), card.expected};
}

// Sets "core" and "memoryMiB".
void set_amounts(Json& out, const Amounts& amounts) {
  out["core"] = {{"capacity", amounts.capacity.core.value()},
                 {"used", amounts.used.core.value()},
                 {"free", amounts.free.core.value()},
                 {"expected", amounts.expected.core.value()}};
  out["memoryMiB"] = {{"capacity", amounts.capacity.memory.value()},
                      {"used", amounts.used.memory.value()},
                      {"free", amounts.free.memory.value()},
                      {"expected", amounts.expected.memory.value()}};
}

// The cards that it is connected with, by the links to them.
Json links_json(const Node& node, std::size_t card) {
  std::map<Link, Json, std::greater<>> linked;
  for (std::size_t other = 0; other < node.links->cards(); ++other) {
    if (other == card || node.links->between(card, other) == Link::kFar) continue;
    Json& cards = linked[node.links->between(card, other)];
    cards.push_back(node.cards[other].index.value());
  }
  Json out = Json::array();
  for (auto& [link, cards] : linked)
    out.push_back({{"link", to_string(link)}, {"cards", std::move(cards)}});
  return out;
}

Json card_json(const Card& card, const NodeView& view) {
  Json out = {{"index", card.index.value()}, {"uuid", card.uuid.str()},
              {"model", card.model},         {"healthy", card.healthy},
              {"uncertain", card.uncertain}, {"cordoned", card.cordoned}};
  const auto health = view.healths.find(card.index);
  if (health != view.healths.end()) out["health"] = health->second;
  if (card.reserved) out["reserved"] = true;
  if (card.instance) out["mig"] = true;
  if (card.numa) out["numa"] = *card.numa;
  if (view.node.links != nullptr) {
    out["links"] = links_json(view.node, static_cast<std::size_t>(&card - view.node.cards.data()));
  }
  if (std::ranges::binary_search(view.overfull, card.index)) {
    out["overfull"] = true;
    out["overfullDetail"] = overfull_sentence(view, std::span(&card.index, 1));
  }
  set_amounts(out, amounts_of(card));
  return out;
}

// "A100-80G", or several, each once; without those that are not known.
std::string models_text(const Node& node, std::span<const CardIndex> cards) {
  std::set<std::string_view> models;
  for (const CardIndex index : cards) {
    const auto card = std::ranges::find(node.cards, index, &Card::index);
    if (card != node.cards.end() && !card->model.empty()) models.insert(card->model);
  }
  return fmt::format("{}", fmt::join(models, ", "));
}

// `node` may be null: then links and models are left out.
Json containers_json(const Claim& claim, const Node* node) {
  Json out = Json::array();
  for (std::size_t i = 0; i < claim.request.containers.size(); ++i) {
    const ContainerRequest& container = claim.request.containers[i];
    const bool known = claim.placement && i < claim.placement->cards_of.size();
    out.push_back({{"name", container.name},
                   {"kind", to_string(container.kind)},
                   {"cards", known ? indices(claim.placement->cards_of[i]) : Json::array()}});
    if (!known || node == nullptr) continue;
    const auto& cards = claim.placement->cards_of[i];
    if (const auto link = worst_link(*node, cards)) out.back()["link"] = to_string(*link);
    const std::string models = models_text(*node, cards);
    if (!models.empty()) out.back()["model"] = models;
  }
  return out;
}

Json held_json(const ClaimView& view, const Node* node = nullptr) {
  const Claim& claim = view.claim;
  Json out = {{"namespace", claim.pod.name_space},
              {"name", claim.pod.name},
              {"uid", claim.uid.str()},
              {"node", claim.node.str()},
              {"phase", view.phase == Phase::kBound ? "bound" : "assumed"},
              {"priority", claim.priority}};
  if (claim.drift) {
    out["drift"] = to_string(*claim.drift);
    out["driftDetail"] = claim.drift_detail;
  }
  out["containers"] = containers_json(claim, node);
  out["holds"] = Json::array();
  for (const CardHold& hold : view.holds) {
    out["holds"].push_back({{"card", hold.card.value()},
                            {"core", hold.share.core.value()},
                            {"memoryMiB", hold.share.memory.value()}});
  }
  return out;
}

Json held_list(std::span<const ClaimView> views, const Node* node = nullptr) {
  Json out = Json::array();
  for (const ClaimView& view : views) out.push_back(held_json(view, node));
  return out;
}

Json node_head(const NodeName& name, const NodeView& view) {
  Json out = {{"name", name.str()}};
  if (!view.problem.empty()) out["problem"] = view.problem;
  if (view.cordoned) out["cordoned"] = true;
  for (const kube::Taint& taint : view.taints) {
    out["taints"].push_back(fmt::format("{}{}{}:{}", taint.key, taint.value.empty() ? "" : "=",
                                        taint.value, taint.effect));
  }
  NodeProfile profile = view.node.profile;
  if (std::exchange(profile.parts_of_one_card, false)) out["partsOfOneCard"] = true;
  if (profile == NodeProfile{}) return out;
  Json& shown = out["profile"] = Json{{"name", profile.name}};
  if (!profile.problem.empty()) shown["problem"] = profile.problem;
  if (!profile.isolation.empty()) shown["isolation"] = profile.isolation;
  if (!profile.compute.empty()) shown["compute"] = profile.compute;
  if (!profile.policy.empty()) shown["policy"] = profile.policy;
  shown["minimum"] = {{"core", profile.minimum.core.value()},
                      {"memoryMiB", profile.minimum.memory.value()}};
  return out;
}

Json cards_json(const NodeView& view) {
  Json out = Json::array();
  for (const Card& card : view.node.cards) out.push_back(card_json(card, view));
  return out;
}

// Returns of how many pods each card holds a share.
std::map<CardIndex, std::size_t> pods_on_cards(const NodeView& view) {
  std::map<CardIndex, std::size_t> pods;
  for (const ClaimView& claim : view.claims)
    for (const CardHold& hold : claim.holds) ++pods[hold.card];
  return pods;
}

Json cards_with_pods(const NodeView& view) {
  const auto pods = pods_on_cards(view);
  Json out = Json::array();
  for (const Card& card : view.node.cards) {
    const auto found = pods.find(card.index);
    out.push_back(card_json(card, view));
    out.back()["pods"] = found == pods.end() ? 0 : found->second;
  }
  return out;
}

Amounts total_of(const LedgerReader& ledger) {
  Amounts total;
  ledger.visit_in_steps([&](const Node& node) {
    for (const Card& card : node.cards) {
      Amounts amounts = amounts_of(card);
      // Most pods cannot have it.
      if (card.instance) amounts.free = {};
      total += amounts;
    }
  });
  return total;
}

Json totals_json(const Counts& counts, const Amounts& total) {
  Json out = {{"nodes", counts.nodes}, {"cards", counts.cards}};
  set_amounts(out, total);
  out["podsBound"] = counts.bound;
  out["podsAssumed"] = counts.assumed;
  out["podsDrifting"] = counts.drifting;
  out["cardsOverfull"] = counts.overfull;
  out["expectedPlacements"] = counts.expected;
  out["podsNominated"] = counts.nominated;
  return out;
}

// The pods that count where a card is found to be overfull: those whose cards are known.
std::vector<std::string> pods_on(const NodeView& view, std::span<const CardIndex> cards) {
  std::vector<std::string> pods;
  for (const ClaimView& claim : view.claims) {
    const auto is_one = [&](const CardHold& hold) {
      return std::ranges::find(cards, hold.card) != cards.end();
    };
    if (claim.claim.placement && std::ranges::any_of(claim.holds, is_one))
      pods.push_back(to_string(claim.claim.pod));
  }
  return pods;
}

}  // namespace

std::string overfull_sentence(const NodeView& view, std::span<const CardIndex> cards) {
  std::vector<std::string> pods = pods_on(view, cards);
  std::string more;
  if (pods.size() > kOverfullPodsMax) {
    more = fmt::format(" and {} more", pods.size() - kOverfullPodsMax);
    pods.resize(kOverfullPodsMax);
  }
  return fmt::format("{} more in use than {} capacity: pods {}{}; {}",
                     cards.size() == 1 ? fmt::format("card {} has", cards[0].value())
                                       : fmt::format("cards {} have", format_card_indices(cards)),
                     cards.size() == 1 ? "its" : "their", fmt::join(pods, ", "), more,
                     texts_of(DriftKind::kOverfullCard).remedy);
}

http::Response cluster_view(LedgerReader& ledger, const Page& page, Instant now) {
  ledger.read(now, [](const View&) {});  // removes expected placements that have ended
  Json out;
  out["totals"] = totals_json(ledger.counts(), total_of(ledger));
  const PageOfNodes cut = cut_page(ledger.node_names(), page);
  out["nodes"] = Json::array();
  for (const NodeName& name : cut.names) {
    const std::optional<NodeView> view = ledger.node(name);
    if (!view) continue;
    Json node = node_head(name, *view);
    node["pods"] = view->claims.size();
    node["cards"] = cards_with_pods(*view);
    out["nodes"].push_back(std::move(node));
  }
  if (!cut.next.empty()) out["next"] = cut.next;
  out["drift"] = held_list(ledger.drifting(kInspectDriftMax));
  return json_response(out);
}

http::Response node_view(const LedgerReader& ledger, const NodeName& name) {
  const std::optional<NodeView> view = ledger.node(name);
  if (!view)
    return http::error_response(404, fmt::format("node {} is not known", in_quotes(name.str())));
  Json out = node_head(name, *view);
  out["cards"] = cards_json(*view);
  out["pods"] = held_list(view->claims, &view->node);
  return json_response(out);
}

http::Response pod_view(const LedgerReader& ledger, const PodRef& pod) {
  const std::optional<ClaimView> view = ledger.claim(pod);
  if (view) {
    const std::optional<NodeView> node = ledger.node(view->claim.node);
    return json_response(held_json(*view, node ? &node->node : nullptr));
  }
  return http::error_response(404, fmt::format("pod {} holds no cards", in_quotes(to_string(pod))));
}

}  // namespace mgpu::extender
