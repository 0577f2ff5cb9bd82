#include "extender/kubectl/inspected.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "common/base/rfc3339.h"
#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

Amounts amounts_in(const Json& json) {
  return {.capacity = json.at("capacity").get<std::int64_t>(),
          .used = json.at("used").get<std::int64_t>(),
          .free = json.at("free").get<std::int64_t>()};
}

InspectedCard card_in(const Json& json) {
  InspectedCard card;
  card.index = json.at("index").get<std::int64_t>();
  card.uuid = json.value("uuid", "");
  card.model = json.value("model", "");
  card.healthy = json.at("healthy").get<bool>();
  card.health = json.value("health", "");
  card.uncertain = json.value("uncertain", false);
  card.cordoned = json.value("cordoned", false);
  card.mig = json.value("mig", false);
  card.overfull = json.value("overfull", false);
  card.overfull_detail = json.value("overfullDetail", "");
  card.pods = json.value("pods", std::int64_t{0});
  card.core = amounts_in(json.at("core"));
  card.memory = amounts_in(json.at("memoryMiB"));
  if (json.contains("numa")) card.numa = json.at("numa").get<std::int64_t>();
  for (const Json& link : json.value("links", Json::array())) {
    card.links +=
        fmt::format("{}{} {}", card.links.empty() ? "" : "; ", link.at("link").get<std::string>(),
                    fmt::join(link.at("cards").get<std::vector<std::int64_t>>(), ","));
  }
  return card;
}

InspectedNode node_in(const Json& json) {
  InspectedNode node;
  node.name = json.at("name").get<std::string>();
  node.problem = json.value("problem", "");
  const Json profile = json.value("profile", Json::object());
  node.isolation = profile.value("isolation", "");
  node.compute = profile.value("compute", "");
  node.cordoned = json.value("cordoned", false);
  node.taints = json.value("taints", node.taints);
  node.pods = json.value("pods", std::int64_t{0});
  for (const Json& card : json.at("cards")) node.cards.push_back(card_in(card));
  return node;
}

Result<std::set<std::string>> selected_names(const std::string& selector, Api& api) {
  std::set<std::string> names;
  const auto listed =
      api.list({"/api/v1/nodes", "", selector}, "list nodes", [&](const std::string& text) {
        if (auto name = read_name(text)) names.insert(*std::move(name));
      });
  if (!listed.known()) return error(listed.problem());
  return names;
}

}  // namespace

Result<std::vector<InspectedNode>> read_inspected_nodes(const Json& cluster) {
  return read_answer<std::vector<InspectedNode>>("/inspect/cluster of the extender", [&] {
    std::vector<InspectedNode> nodes;
    for (const Json& node : cluster.at("nodes")) nodes.push_back(node_in(node));
    return nodes;
  });
}

Result<std::vector<InspectedNode>> all_nodes(Extender& extender, Json* first) {
  std::vector<InspectedNode> all;
  std::string after;
  for (std::size_t page = 0; page < kPagesMax; ++page) {
    const auto json = extender.get("/inspect/cluster?limit=500&after=" + kube::query_text(after),
                                   "read the nodes");
    if (!json) return json.error();
    if (first != nullptr && page == 0) *first = *json;
    auto nodes = read_inspected_nodes(*json);
    if (!nodes) return nodes.error();
    std::ranges::move(*nodes, std::back_inserter(all));
    const auto next = json->find("next");
    if (next == json->end() || !next->is_string()) return all;
    after = next->get<std::string>();
  }
  return error(fmt::format("read the nodes: the extender has over {} pages", kPagesMax));
}

void add_node_flags(Options& options, NodeChoice& choice) {
  options.add_words("NODE...", choice.names, 0, kNodesNamedMax);
  options.check([&choice]() -> Result<void> {
    remove_kind("node", choice.names);
    return {};
  });
  options.add_text("l,selector",
                   "Label selector of the nodes. If empty, all nodes with cards are shown.",
                   choice.selector);
}

Result<std::vector<InspectedNode>> chosen_nodes(std::vector<InspectedNode> nodes,
                                                const NodeChoice& choice, Api& api) {
  if (!choice.selector.empty()) {
    const auto names = selected_names(choice.selector, api);
    if (!names) return names.error();
    std::erase_if(nodes, [&](const InspectedNode& node) { return !names->contains(node.name); });
  }
  if (choice.names.empty()) {
    std::erase_if(nodes, [](const InspectedNode& node) {
      return node.cards.empty() && node.problem.empty() && node.pods == 0;
    });
    return nodes;
  }
  std::vector<InspectedNode> named;
  for (const std::string& name : choice.names) {
    const auto found = std::ranges::find(nodes, name, &InspectedNode::name);
    if (found == nodes.end()) {
      return error(fmt::format("node {} is not known to the extender{}", in_quotes(name),
                               choice.selector.empty() ? "" : ", or does not have these labels"));
    }
    named.push_back(*found);
  }
  return named;
}

NodeSums sums_of(const std::vector<InspectedNode>& nodes) {
  const auto add_to = [](Amounts& sum, const Amounts& amounts, bool mig) {
    sum.capacity += amounts.capacity;
    sum.used += amounts.used;
    sum.free += mig ? 0 : amounts.free;
  };
  NodeSums sums;
  for (const InspectedNode& node : nodes) {
    sums.pods += node.pods;
    for (const InspectedCard& card : node.cards) {
      ++sums.cards;
      add_to(sums.core, card.core, card.mig);
      add_to(sums.memory, card.memory, card.mig);
      ++sums.models[card.model];
      if (state_of(card) != kHealthyState) continue;
      ++sums.usable;
      if (card.core.used == 0 && card.memory.used == 0) ++(card.mig ? sums.free_mig : sums.free);
    }
  }
  return sums;
}

Cell used_cell(const Amounts& amounts) {
  const Fill fill{amounts.used, amounts.capacity};
  return {fmt::format("{}/{}", grouped(fill.part), grouped(fill.whole)), color_of(fill), fill};
}

std::string state_of(const InspectedCard& card) {
  if (!card.healthy) return "Unhealthy";
  if (card.cordoned) return "Cordoned";
  return card.uncertain ? "Blocked" : kHealthyState;
}

Color color_of_state(const std::string& state) {
  if (state == kHealthyState) return Color::kGreen;
  return state == "Unhealthy" ? Color::kRed : Color::kYellow;
}

std::string health_text(const std::string& health, Time now) {
  constexpr std::string_view kSince = " since ";
  const std::size_t at = health.rfind(kSince);
  if (at == health.npos) return health;
  const auto since = read_rfc3339(health.substr(at + kSince.size()));
  return since ? health.substr(0, at) + " for " + age_text(since, now) : health;
}

Json amounts_json(const Amounts& amounts) {
  return {{"capacity", amounts.capacity}, {"used", amounts.used}, {"free", amounts.free}};
}

// "[json.exception.out_of_range.403] key 'nodes' not found"
std::string problem_of(const nlohmann::json::exception& failure) {
  const std::string_view text = failure.what();
  const std::size_t end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > sign + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

}  // namespace mgpu::kubectl
