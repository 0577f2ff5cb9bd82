#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/rfc3339.h"
#include "common/base/utc_text.h"
#include "common/contract/drift.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/drift.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

DriftItem plugin_item(const Json& from, const std::string& node) {
  DriftItem item{.kind = from.at("kind").get<std::string>(), .node = node};
  item.pod = {from.value("namespace", ""), from.value("pod", "")};
  item.container = from.value("container", "");
  if (from.contains("card")) item.card = from.at("card").get<std::int64_t>();
  item.uuid = from.value("uuid", "");
  item.since = read_rfc3339(from.value("since", ""));
  item.message = from.value("message", "");
  item.from_plugin = true;
  return item;
}

void add_overfull(const InspectedNode& node, ReadDrift& drift) {
  for (const InspectedCard& card : node.cards) {
    if (!card.overfull) continue;
    DriftItem item{.kind = std::string(to_string(DriftKind::kOverfullCard)), .node = node.name};
    item.card = card.index;
    item.uuid = card.uuid;
    item.message = card.overfull_detail;
    drift.items.push_back(std::move(item));
  }
}

DriftItem extender_item(const Json& pod) {
  DriftItem item{.kind = pod.at("drift").get<std::string>(),
                 .node = pod.at("node").get<std::string>()};
  item.pod = {pod.at("namespace").get<std::string>(), pod.at("name").get<std::string>()};
  const bool changed = item.kind == to_string(DriftKind::kChangedAnnotations);
  item.message = fmt::format(
      "{}; {}", pod.value("driftDetail", ""),
      texts_of(changed ? DriftKind::kChangedAnnotations : DriftKind::kBindingWithoutCards).remedy);
  return item;
}

bool is_chosen(const DriftItem& item, const DriftChoice& choice) {
  if (!choice.nodes.empty() && !choice.nodes.contains(item.node)) return false;
  const auto& names = choice.pods.names;
  if (item.pod.name.empty()) return names.empty() && !choice.selected;
  if (!choice.pods.all && item.pod.name_space != choice.name_space) return false;
  if (choice.selected && !choice.selected->contains(item.pod)) return false;
  return names.empty() || std::ranges::find(names, item.pod.name) != names.end();
}

Json drift_object(const DriftItem& item) {
  Json json = {{"node", item.node}, {"kind", item.kind}};
  if (!item.pod.name.empty()) {
    json["namespace"] = item.pod.name_space;
    json["pod"] = item.pod.name;
  }
  if (!item.container.empty()) json["container"] = item.container;
  if (item.card) json["card"] = *item.card;
  if (!item.uuid.empty()) json["uuid"] = item.uuid;
  if (item.since) json["since"] = utc_text(*item.since);
  json["message"] = item.message;
  json["source"] = item.from_plugin ? "device-plugin" : "extender";
  return json;
}

}  // namespace

Result<ReadDrift> plugin_drift(const std::string& body, const std::string& node) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object()) {
    return error("the answer of the device plugin to /drift is not a JSON object");
  }
  return read_answer<ReadDrift>("/drift of the device plugin", [&] {
    ReadDrift drift;
    const std::string name = node.empty() ? answer.at("node").get<std::string>() : node;
    for (const Json& item : answer.at("items")) {
      if (drift.items.size() == kDriftItemsMax) {
        ++drift.left_out;
      } else {
        drift.items.push_back(plugin_item(item, name));
      }
    }
    if (answer.contains("leftOut")) drift.left_out += answer.at("leftOut").get<std::int32_t>();
    return drift;
  });
}

Result<ReadDrift> extender_drift(const Json& cluster, const std::vector<InspectedNode>& nodes) {
  return read_answer<ReadDrift>("/inspect/cluster of the extender", [&] {
    ReadDrift drift;
    for (const Json& pod : cluster.at("drift")) drift.items.push_back(extender_item(pod));
    const Json counts = cluster.value("totals", Json::object());
    const auto all = counts.value("podsDrifting", std::int64_t{0});
    drift.left_out = std::max<std::int64_t>(all - static_cast<std::int64_t>(drift.items.size()), 0);
    for (const InspectedNode& node : nodes) add_overfull(node, drift);
    return drift;
  });
}

std::vector<DriftItem> chosen_drift(std::vector<DriftItem> items, const DriftChoice& choice) {
  // A plugin reports its own node only.
  std::set<std::tuple<std::string, PodRef, std::string>> of_plugins;
  for (const DriftItem& item : items) {
    if (item.from_plugin && !item.pod.name.empty()) {
      of_plugins.emplace(item.node, item.pod, item.kind);
    }
  }
  std::erase_if(items, [&](const DriftItem& item) {
    const bool again = !item.from_plugin && of_plugins.contains({item.node, item.pod, item.kind});
    return again || !is_chosen(item, choice);
  });
  std::ranges::sort(items, {}, [](const DriftItem& item) {
    return std::tie(item.node, item.pod.name_space, item.pod.name, item.container, item.card,
                    item.kind, item.message);
  });
  return items;
}

View drift_view(const std::vector<DriftItem>& items, bool with_namespace, Time now) {
  View view{.table = Table({{"NODE"},
                            {.title = "NAMESPACE", .hidden = !with_namespace},
                            {"POD"},
                            {"CONTAINER"},
                            {"CARD", false, true},
                            {"KIND"},
                            {"AGE"},
                            {"MESSAGE", true}}),
            .json = {{"items", Json::array()}}};
  view.empty = "No drift found.";
  for (const DriftItem& item : items) {
    view.table.add({{item.node},
                    {item.pod.name_space},
                    {item.pod.name},
                    {item.container},
                    {item.card ? std::to_string(*item.card) : ""},
                    {item.kind, Color::kRed},
                    {age_text(item.since, now)},
                    {item.message}});
    view.json["items"].push_back(drift_object(item));
    const std::string name = item.pod.name.empty() ? "node/" + item.node : "pod/" + item.pod.name;
    if (std::ranges::find(view.names, name) == view.names.end()) view.names.push_back(name);
  }
  return view;
}

}  // namespace mgpu::kubectl
