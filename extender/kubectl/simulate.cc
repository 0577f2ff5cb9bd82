// kubectl mgpu simulate
#include <fmt/format.h>

#include <map>
#include <vector>

#include "common/base/text.h"
#include "common/kube/objects/manifest.h"
#include "common/kube/request.h"
#include "common/yaml/json.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/inspected.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

// "0,2" for one container, "app=0;side=2" for several.
std::string cards_of_pod(const Json& placement) {
  const Json& containers = placement.at("containers");
  std::string text;
  for (const Json& container : containers) {
    if (!text.empty()) text += ";";
    if (containers.size() > 1) text += container.at("container").get<std::string>() + "=";
    text +=
        fmt::format("{}", fmt::join(container.at("cards").get<std::vector<std::int64_t>>(), ","));
  }
  return text;
}

struct OnNode {
  std::int64_t pods = 0;
  std::string cards;  // of each pod
};

struct SimulatedPods {
  std::int64_t replicas = 0;
  Json pod;
};

// Reads the pods of the only object that has some.
Result<SimulatedPods> read_pods(const kube::Manifest& manifest) {
  std::vector<kube::ManifestObject> owners = manifest.objects;
  std::erase_if(owners, [](const kube::ManifestObject& object) { return !object.has_pods; });
  if (owners.size() != 1) {
    return error(fmt::format("has {} objects with pods, expected one", owners.size()));
  }
  const auto pod = kube::pod_of(owners.front());
  if (!pod) return pod.error();
  const auto replicas = kube::pods_wanted(owners.front());
  if (!replicas) return replicas.error();
  return SimulatedPods{*replicas, Json::parse(yaml::json_of(*pod))};
}

std::string outcome_text(const Json& json) {
  const auto placed = json.at("placed").get<std::int64_t>();
  const auto replicas = json.at("replicas").get<std::int64_t>();
  const auto fitting = json.at("fitting").get<std::int64_t>();
  const std::string pod = fmt::format(
      "{}/{}", sanitize_for_terminal(json.at("namespace").get<std::string>(), kShownNameMax),
      sanitize_for_terminal(json.at("name").get<std::string>(), kShownNameMax));
  std::string text =
      fmt::format("{} of {} replica{} of {} fit{} by policy {}.\n", grouped(placed),
                  grouped(replicas), replicas == 1 ? "" : "s", pod, placed == 1 ? "s" : "",
                  sanitize_for_terminal(json.at("policy").get<std::string>(), kShownNameMax));
  if (json.contains("notConsidered")) {
    text += fmt::format(
        "Note: {}.\n",
        sanitize_for_terminal(json.at("notConsidered").get<std::string>(), kShownSentenceMax));
  }
  const bool ended = json.contains("message");
  if (ended && placed < replicas) {
    text += sanitize_for_terminal(json.at("message").get<std::string>(), kShownSentenceMax) + "\n";
  } else if (fitting > replicas) {
    text += fmt::format("{}{} would fit in total.\n", ended ? "At least " : "", grouped(fitting));
  } else if (placed == replicas) {
    text += "No more would fit.\n";
  }
  return text;
}

struct SimulationView {
  std::string outcome{};  // how many fit
  bool all_fit = false;
  View placements;
  Table reasons;       // why no more fit
  std::string ways{};  // in which one more would
};

// Errors: a member is missing or has a wrong type.
Result<SimulationView> simulate_view(const Json& answer) {
  return read_answer<SimulationView>("/inspect/simulate of the extender", [&] {
    std::map<std::string, OnNode> nodes;
    for (const Json& placement : answer.at("placements")) {
      OnNode& on = nodes[placement.at("node").get<std::string>()];
      on.cards += (on.pods++ == 0 ? "" : " ") + cards_of_pod(placement);
    }
    SimulationView view{
        .placements = {.table = Table({{"NODE"}, {"PODS", false, true}, {"CARDS OF EACH POD"}}),
                       .json = answer},
        .reasons = Table({{"NODES", false, true}, {"WHY NO MORE FIT"}})};
    for (const auto& [name, on] : nodes) {
      view.placements.table.add({{name}, {grouped(on.pods)}, {on.cards}});
      view.placements.names.push_back("node/" + name);
    }
    for (const Json& reason : answer.at("reasons")) {
      view.reasons.add({{grouped(reason.at("nodes").get<std::int64_t>())},
                        {reason.at("reason").get<std::string>()}});
    }
    view.outcome = outcome_text(answer);
    // An extender before this member does not have it.
    const Json pending = answer.value("pending", Json::object());
    for (const Json& way : pending.value("ways", Json::array())) {
      const auto sentence = sanitize_for_terminal(way.get<std::string>(), kShownSentenceMax);
      view.ways +=
          fmt::format("{}  {}\n", view.ways.empty() ? "\nOne more would fit\n" : "", sentence);
    }
    view.all_fit = answer.at("placed") == answer.at("replicas");
    return view;
  });
}

Result<void> show_simulation(SimulationView view, const std::string& format, Console& console) {
  if (format != "table" && format != "wide") {
    return show(std::move(view.placements), {.output = format}, console);
  }
  console.print(view.outcome);
  const auto print = [&](const Table& table) {
    if (table.empty()) return;
    console.print("\n" + table.text({.wide = format == "wide",
                                     .terminal = console.colors,
                                     .width = console.width,
                                     .utf8 = console.utf8}));
  };
  print(view.placements.table);
  if (format != "wide" && view.all_fit) return {};
  print(view.reasons);
  console.print(view.ways);
  return {};
}

class SimulateVerb {
 public:
  void add_flags(Options& options) {
    options.add_text("f,filename",
                     "Manifest of a Pod, Deployment, Job, ...; \"-\": standard input.", filename_);
    options.add_number("replicas",
                       "Number of pods; 0: that of the manifest, where a Pod counts as one.",
                       replicas_, 0, kSimulatedReplicasMax);
    options.add_text("policy", "Policy instead of the one of the manifest or of the extender.",
                     policy_);
    add_namespace_flag(options, name_space_);
    add_output_flag(options, output_, kViewFormats);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
    options.check([this]() -> Result<void> {
      if (!filename_.empty()) return {};
      return error("--filename is missing");
    });
  }
  Result<int> run(Console& console) {
    const auto text = kube::read_manifest_file(filename_);
    if (!text) return text.error();
    const auto in_file = [&](const std::string& sentence) {
      return in_quotes(filename_) + ": " + sentence;
    };
    const auto manifest = kube::read_manifest(*text);
    if (!manifest) return error(in_file(manifest.error().message));
    const std::string others = kube::not_read(*manifest);
    if (!others.empty()) fail(console, in_file(others));
    auto pods = read_pods(*manifest);
    if (!pods) return error(in_file(pods.error().message));
    const std::int64_t replicas = replicas_ > 0 ? replicas_ : pods->replicas;
    if (replicas < 1 || replicas > kSimulatedReplicasMax) {
      return error(fmt::format(
          "the manifest has {} replicas, expected 1 to {}; --replicas sets another number",
          replicas, kSimulatedReplicasMax));
    }
    const auto cluster = Cluster::connect(access_, extender_.url);
    if (!cluster) return cluster.error();
    Json& metadata = pods->pod["metadata"];
    if (!metadata.contains("namespace")) {
      metadata["namespace"] = namespace_of(name_space_, (*cluster)->config());
    }
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender) return extender.error();
    const auto answer = (*extender)->post(
        fmt::format("/inspect/simulate?replicas={}&policy={}", replicas, kube::query_text(policy_)),
        json_text(pods->pod), "simulate");
    if (!answer) return answer.error();
    const auto view = simulate_view(*answer);
    if (!view) return view.error();
    if (auto shown = show_simulation(*view, output_, console); !shown) return shown.error();
    return view->all_fit ? kSucceeded : kFoundOrFailed;
  }

 private:
  ClusterFlags access_;
  ExtenderFlags extender_;
  std::string filename_;
  std::string name_space_;
  std::string policy_;
  std::string output_;
  std::int64_t replicas_ = 0;
};

}  // namespace

Run add_simulate(Options& options) {
  return add_command<SimulateVerb>(options);
}

}  // namespace mgpu::kubectl
