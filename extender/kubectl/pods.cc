// kubectl mgpu pods
#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

Color color_of_status(const PodRow& pod) {
  if (pod.broken) return Color::kRed;
  if (pod.status == "Running") return Color::kGreen;
  return Color::kYellow;
}

// "8,192", "whole cards", "8,192 + whole cards"
std::string memory_text(const PodSums& sums) {
  if (!sums.whole) return grouped(sums.memory);
  return sums.memory == 0 ? "whole cards" : grouped(sums.memory) + " + whole cards";
}

// "app=0;side=0,1"
std::string containers_text(const PodRow& pod) {
  std::string text;
  for (const PodContainerRow& container : pod.containers) {
    if (!text.empty()) text += ";";
    text += container.name + "=";
    if (container.indices.empty()) {
      text += counted(container.cards, "card");
    } else {
      text += fmt::format("{}", fmt::join(container.indices, ","));
    }
  }
  return text;
}

Json container_object(const PodContainerRow& container) {
  Json json = {{"name", container.name},
               {"kind", container.kind},
               {"cards", container.cards},
               {"core", container.core}};
  if (container.whole) {
    json["whole"] = true;
  } else {
    json["memoryMiB"] = container.memory;
  }
  if (!container.indices.empty()) json["indices"] = container.indices;
  return json;
}

Json pod_object(const PodRow& pod) {
  Json json = {{"namespace", pod.ref.name_space}, {"name", pod.ref.name}};
  if (!pod.node.empty()) json["node"] = pod.node;
  json["status"] = pod.status;
  if (!pod.policy.empty()) json["policy"] = pod.policy;
  if (!pod.message.empty()) json[pod.broken ? "problem" : "message"] = pod.message;
  json["containers"] = Json::array();
  for (const PodContainerRow& container : pod.containers) {
    json["containers"].push_back(container_object(container));
  }
  return json;
}

class PodsVerb {
 public:
  void add_flags(Options& options) {
    add_shown_pods_flags(options, shown_);
    options.add_flag("pending", "Show only pods that are not bound to a node.", pending_);
    options.add_choice("by", "What each row is about.", by_, {"pod", "owner", "namespace"});
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(shown_.access);
    if (!cluster) return cluster.error();
    auto pods = read_shown_pods(**cluster, shown_);
    if (!pods) return pods.error();
    if (pending_) std::erase_if(*pods, [](const PodRow& pod) { return !pod.node.empty(); });
    auto view =
        by_ == "pod" ? pods_view(*pods, shown_.choice.all, clock_now()) : pods_by_view(*pods, by_);
    if (auto printed = show(std::move(view), shown_.view, console); !printed)
      return printed.error();
    return kSucceeded;
  }

 private:
  ShownPods shown_;
  bool pending_ = false;
  std::string by_ = "pod";
};

}  // namespace

void add_shown_pods_flags(Options& options, ShownPods& shown) {
  add_pod_flags(options, shown.choice);
  add_view_flags(options, shown.view);
  add_domain_flag(options, shown.domain);
  add_cluster_flags(options, shown.access);
}

Result<std::vector<PodRow>> read_shown_pods(Cluster& cluster, const ShownPods& shown) {
  return read_pods(cluster.api(), shown.choice,
                   namespace_of(shown.choice.name_space, cluster.config()),
                   *Contract::for_domain(shown.domain));
}

View pods_view(const std::vector<PodRow>& pods, bool with_namespace, Time now) {
  View view{.table = Table({{.title = "NAMESPACE", .hidden = !with_namespace},
                            {"NAME"},
                            {"STATUS"},
                            {"NODE"},
                            {"CARDS"},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true},
                            {"AGE"},
                            {"CONTAINERS", true},
                            {"POLICY", true},
                            {"MESSAGE", true}}),
            .json = {{"items", Json::array()}},
            .empty = "No pods that request cards found."};
  for (const PodRow& pod : pods) {
    const PodSums sums = sums_of(pod);
    const bool readable = !pod.containers.empty();
    view.table.add({{pod.ref.name_space},
                    {pod.ref.name},
                    {pod.status, color_of_status(pod)},
                    {pod.node},
                    {cards_text(pod)},
                    {readable ? grouped(sums.core) : "?"},
                    {readable ? memory_text(sums) : "?"},
                    {age_text(pod.created, now)},
                    {containers_text(pod)},
                    {pod.policy},
                    {pod.message}});
    view.json["items"].push_back(pod_object(pod));
    view.names.push_back("pod/" + pod.ref.name);
  }
  return view;
}

View pods_by_view(const std::vector<PodRow>& pods, const std::string& by) {
  struct Group {
    std::int64_t pods = 0;
    std::int64_t unscheduled = 0;
    PodSums sums;  // of those that are bound
  };
  const bool by_owner = by == "owner";
  std::map<std::pair<std::string, std::string>, Group> groups;
  Group all;
  for (const PodRow& pod : pods) {
    for (Group* group : {&groups[{pod.ref.name_space, by_owner ? pod.owner : ""}], &all}) {
      ++group->pods;
      if (pod.node.empty()) {
        ++group->unscheduled;
      } else {
        group->sums += sums_of(pod);
      }
    }
  }
  View view{.table = Table({{"NAMESPACE"},
                            {.title = "OWNER", .hidden = !by_owner},
                            {"PODS", false, true},
                            {"UNSCHEDULED", false, true},
                            {"CORE", false, true},
                            {"MEMORY (MIB)", false, true}}),
            .json = {{"items", Json::array()}},
            .empty = "No pods that request cards found."};
  const auto row = [](const std::string& name_space, const std::string& owner,
                      const Group& group) -> std::vector<Cell> {
    return {{name_space},
            {owner},
            {grouped(group.pods)},
            {grouped(group.unscheduled), group.unscheduled > 0 ? Color::kYellow : Color::kNone},
            {grouped(group.sums.core)},
            {memory_text(group.sums)}};
  };
  for (const auto& [names, group] : groups) {
    const auto& [name_space, owner] = names;
    view.table.add(row(name_space, owner, group));
    Json json = {{"namespace", name_space}};
    if (by_owner) json["owner"] = owner;
    json.update({{"pods", group.pods},
                 {"unscheduled", group.unscheduled},
                 {"core", group.sums.core},
                 {"memoryMiB", group.sums.memory}});
    if (group.sums.whole) json["wholeCards"] = true;
    view.json["items"].push_back(std::move(json));
    view.names.push_back(by_owner ? owner : "namespace/" + name_space);
  }
  view.table.set_sum(row("SUM", "", all));
  return view;
}

Run add_pods(Options& options) {
  return add_command<PodsVerb>(options);
}

}  // namespace mgpu::kubectl
