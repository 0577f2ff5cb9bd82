// The nodes with cards, their device plugins and their kubelets.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "common/contract/quantity.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// Labels of node-feature-discovery (a PCI device of NVIDIA) and of NVIDIA's own tools.
constexpr std::array<const char*, 4> kGpuLabels = {
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present", "nvidia.com/gpu.present"};

const kube::Condition* condition_of(const NodeFacts& node, std::string_view type) {
  const auto found = std::ranges::find(node.conditions, type, &kube::Condition::type);
  return found == node.conditions.end() ? nullptr : &*found;
}

// Zero where there is none, or none that can be read.
std::int64_t amount_of(const kube::StringMap& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_whole_quantity(resource, found->second);
  return amount ? *amount : 0;
}

// A node of the installation.
struct CheckedNode {
  const NodeFacts& node;
  const Facts& facts;
  const ProgramPod* plugin;  // null: none, or not known
  Findings& findings;

  void add(Level level, std::string what, Advice remedy) const {
    add_grouped(findings, node.name, level, std::move(what), std::move(remedy));
  }
};

// False: none runs, which explains everything else that the node lacks.
bool check_plugin(const CheckedNode& at) {
  if (!at.facts.plugin_pods.known()) return true;
  const kube::Condition* const ready = condition_of(at.node, "MGPUReady");
  const bool offers = amount_of(at.node.allocatable, at.facts.contract.core_resource) > 0;
  if (at.plugin == nullptr) {
    // The device plugin may also run outside of pods.
    if (ready != nullptr && ready->status == "True" && offers) return true;
    at.add(Level::kError, "no mgpu-device-plugin runs on the node", kSelectNode);
    return false;
  }
  if (!at.plugin->ready && !at.plugin->being_deleted) {
    at.add(Level::kError,
           fmt::format("the pod of mgpu-device-plugin is not ready ({})", at.plugin->state()),
           kSeePluginPod);
  }
  return true;
}

void check_cards(const CheckedNode& at) {
  const Contract& contract = at.facts.contract;
  const auto found = at.node.annotations.find(contract.node_cards);
  if (found == at.node.annotations.end()) {
    at.add(Level::kError, fmt::format("the node has no annotation {}", contract.node_cards),
           kSeePluginLog);
    return;
  }
  const auto published = parse_node_annotation(found->second);
  if (!published) {
    at.add(Level::kError,
           fmt::format("the annotation {} cannot be read: {}", contract.node_cards,
                       published.error().message),
           kSeePluginLog);
    return;
  }
  if (!published->profile.problem.empty()) {
    at.add(Level::kWarning, published->profile.problem, kCorrectProfile);
  }
  for (const CardFacts& card : published->cards) {
    if (card.healthy() || card.reserved()) continue;
    at.add(Level::kWarning,
           fmt::format("card {} is not healthy: {}", card.index.value(), card.health), kSeeCard);
  }
  if (amount_of(at.node.capacity, contract.core_resource) == 0) {
    at.add(Level::kError, fmt::format("the node has no {}", contract.core_resource), kSeeReady);
  } else if (amount_of(at.node.capacity, contract.memory_resource) == 0) {
    at.add(Level::kError, fmt::format("the node has no {}", contract.memory_resource),
           kSeePluginLog);
  }
}

void check_cordoned(const CheckedNode& at) {
  const Contract& contract = at.facts.contract;
  const auto found = at.node.annotations.find(contract.cordoned_cards);
  if (found == at.node.annotations.end()) return;
  const auto cards = parse_card_indices(found->second);
  if (!cards) {
    at.add(Level::kWarning,
           fmt::format("the annotation {} cannot be read, so that no card is cordoned: {}",
                       contract.cordoned_cards, cards.error().message),
           Advice(kRemoveAnnotation, contract.cordoned_cards));
    return;
  }
  if (cards->empty()) return;
  at.add(Level::kNote, fmt::format("cards are cordoned: {}", format_card_indices(*cards)),
         {kUncordon, std::to_string(cards->front().value())});
}

void check_ready(const CheckedNode& at) {
  if (text_or_empty(at.node.labels, at.facts.contract.release) == "true") {
    at.add(Level::kNote,
           fmt::format("the label {} makes the device plugin release the driver",
                       at.facts.contract.release),
           Advice(kRemoveRelease, at.facts.contract.release));
    return;
  }
  const kube::Condition* const ready = condition_of(at.node, "MGPUReady");
  if (ready == nullptr) {
    at.add(Level::kError, "the node has no condition MGPUReady", kSeePluginLog);
  } else if (ready->status != "True") {
    at.add(ready->status == "False" ? Level::kError : Level::kWarning,
           fmt::format("the condition MGPUReady is {} ({}): {}", ready->status, ready->reason,
                       ready->message),
           kFollowMessage);
  }
}

bool is_nvidia_resource(const std::string& name) {
  return name == "nvidia.com/gpu" || name.starts_with("nvidia.com/gpu.") ||
         name.starts_with("nvidia.com/mig-");
}

void check_other_owners(const CheckedNode& at) {
  const kube::Condition* const exclusive = condition_of(at.node, "MGPUCardsExclusive");
  if (exclusive != nullptr && exclusive->status == "False") {
    at.add(Level::kWarning,
           fmt::format("other software can allocate the cards of the node ({}): {}",
                       exclusive->reason, exclusive->message),
           kFollowMessage);
    return;
  }
  if (exclusive != nullptr && exclusive->status == "Unknown") {
    at.add(Level::kNote,
           fmt::format("it is not known who else can reach the cards of the node: {}",
                       exclusive->message),
           kFollowMessage);
  }
  for (const auto& [name, amount] : at.node.capacity) {
    if (!is_nvidia_resource(name) || amount_of(at.node.capacity, name) == 0) continue;
    at.add(Level::kWarning,
           fmt::format("the node has {}, so that another device plugin allocates its cards", name),
           kRemovePlugin);
  }
  const auto& slices = at.facts.nodes_of_dra_driver;
  if (slices.known() && slices.value().contains(at.node.name)) {
    at.add(
        Level::kWarning,
        "the node has a ResourceSlice of gpu.nvidia.com, so that this driver allocates its cards",
        kRemoveDra);
  }
}

std::map<std::string, const ProgramPod*> plugins_by_node(const Facts& facts) {
  std::map<std::string, const ProgramPod*> plugins;
  if (!facts.plugin_pods.known()) return plugins;
  for (const ProgramPod& pod : facts.plugin_pods.value()) {
    if (pod.node.empty() || pod.phase == "Failed" || pod.phase == "Succeeded") continue;
    const ProgramPod*& known = plugins[pod.node];
    if (known == nullptr || pod.ready) known = &pod;
  }
  return plugins;
}

void check_gates(const KubeletGates& kubelet, const NodeFacts& node, Findings& findings) {
  const auto is_off = [&](const char* name) {
    const auto found = kubelet.gates.find(name);
    return found != kubelet.gates.end() && !found->second;
  };
  if (is_off("KubeletPodResources")) {
    add_grouped(findings, node.name, Level::kError,
                "kubelet has the feature gate KubeletPodResources switched off, without which the "
                "shares of deleted pods are not released",
                kRemoveGate);
  }
  const auto version = parse_version(node.kubelet_version);
  if (version && !(*version < Version{1, 36, 0}) && !is_off("ResourceHealthStatus")) {
    add_grouped(findings, node.name, Level::kNote,
                "kubelet 1.36 updates the status of pods with shares every few seconds "
                "(kubernetes/kubernetes#142293)",
                kSetGates);
  }
}

void check_kubelet_version(const NodeFacts& node, Findings& findings) {
  const auto version = parse_version(node.kubelet_version);
  if (version && *version < Version{1, 25, 0}) {
    add_grouped(
        findings, node.name, Level::kError,
        fmt::format("kubelet has version {}, and mgpu needs 1.25 or later", node.kubelet_version),
        kUpgradeKubelet);
  }
}

}  // namespace

bool has_cards(const NodeFacts& node, const Contract& contract) {
  const std::string own = text_or_empty(node.labels, contract.domain + "/mgpu-node");
  if (own == "false") return false;
  return own == "true" || node.annotations.contains(contract.node_cards) ||
         std::ranges::any_of(kGpuLabels, [&](const char* label) {
           return text_or_empty(node.labels, label) == "true";
         });
}

Findings check_nodes(const Facts& facts) {
  Findings findings;
  if (!known_or_add(facts.nodes, findings)) return findings;
  known_or_add(facts.plugin_pods, findings);
  if (!facts.nodes_of_dra_driver.known() && !facts.nodes_of_dra_driver.absent()) {
    known_or_add(facts.nodes_of_dra_driver, findings);
  }
  const auto plugins = plugins_by_node(facts);
  std::size_t count = 0;
  for (const NodeFacts& node : facts.nodes.value()) {
    if (!has_cards(node, facts.contract)) continue;
    ++count;
    const auto plugin = plugins.find(node.name);
    const CheckedNode at{node, facts, plugin == plugins.end() ? nullptr : plugin->second, findings};
    check_other_owners(at);
    check_cordoned(at);
    if (!check_plugin(at)) continue;
    check_cards(at);
    check_ready(at);
  }
  if (count == 0) {
    findings.push_back(
        {Level::kWarning,
         facts.node_selector.empty() ? "no node has cards" : "no selected node has cards",
         Advice(kLabelNodes, facts.contract.domain)});
  }
  return or_ok(std::move(findings), count_text(count, "node") + " with cards checked");
}

Findings check_kubelets(const Facts& facts) {
  Findings findings;
  if (!facts.nodes.known()) return findings;
  std::map<std::string, const NodeFacts*> nodes;
  for (const NodeFacts& node : facts.nodes.value()) {
    if (!has_cards(node, facts.contract)) continue;
    nodes[node.name] = &node;
    check_kubelet_version(node, findings);
  }
  if (nodes.empty()) return findings;
  if (!facts.gates.known()) {
    findings.push_back(
        {Level::kNote,
         "the feature gates of the kubelets were not checked: " + facts.gates.problem(),
         kOtherUserForKubelets});
    return findings;
  }
  for (const KubeletGates& kubelet : facts.gates.value()) {
    const auto node = nodes.find(kubelet.node);
    if (node != nodes.end()) check_gates(kubelet, *node->second, findings);
  }
  const std::size_t asked = facts.gates->size();
  if (asked < nodes.size()) {
    findings.push_back(
        {Level::kNote,
         fmt::format("the feature gates of {} of {} kubelets were checked", asked, nodes.size())});
  }
  return or_ok(std::move(findings), "the versions and feature gates of the kubelets suffice");
}

}  // namespace mgpu::kubectl
