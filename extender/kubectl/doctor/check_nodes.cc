// The nodes with cards, their device plugins and their kubelets.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/text.h"
#include "common/contract/quantity.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// --- nodes ---------------------------------------------------------------------------------------

constexpr Remedy kFollowMessage =
    to_look("follow the message; the log of the device plugin has the details");

// The condition of the node; one without a status if it does not have it.
kube::Condition condition_of(At at, std::string_view type) {
  const auto found = std::ranges::find(at.node->conditions, type, &kube::Condition::type);
  return found == at.node->conditions.end() ? kube::Condition{} : *found;
}

// Zero if there is none, or none that can be read.
std::int64_t amount_of(const kube::StringMap& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  if (found == amounts.end()) return 0;
  const auto amount = parse_whole_quantity(resource, found->second);
  return amount ? *amount : 0;
}

bool has_capacity(At at, const std::string& resource) {
  return amount_of(at.node->capacity, resource) != 0;
}

const ProgramPod* plugin_of(At at) {
  const auto plugin = at.index.plugins.find(at.node->name);
  return plugin == at.index.plugins.end() ? nullptr : plugin->second;
}

// The annotation is there, and `read` is the error of its text.
template <class T>
Matches unreadable_annotation(At at, const std::string& name, const Result<T>& read) {
  if (read || !at.node->annotations.contains(name)) return {};
  return when(true, name, read.error().message);
}

// The end of the message of MGPUReady, which says why `auto` found nothing that limits memory;
// empty if nobody wants a limit. plugin/agent/isolation.cc writes it after the other sentences.
std::string why_not_limited(const std::string& message) {
  const std::size_t begin = message.find("--isolation=auto is none");
  return begin == std::string::npos ? "" : message.substr(begin);
}

// What the node publishes of its cards; empty if that is absent or cannot be read.
Result<NodeCards> read_published(At at) {
  return parse_node_annotation(text_or_empty(at.node->annotations, at.facts.contract.node_cards));
}

NodeCards published_by(At at) {
  const auto read = read_published(at);
  return read ? *read : NodeCards{};
}

Result<std::vector<CardIndex>> read_cordoned(At at) {
  return parse_card_indices(text_or_empty(at.node->annotations, at.facts.contract.cordoned_cards));
}

kube::Condition ready_of(At at) {
  return condition_of(at, "MGPUReady");
}

kube::Condition exclusive_of(At at) {
  return condition_of(at, "MGPUCardsExclusive");
}

// The device plugin may also run outside of pods.
bool lacks_plugin(At at) {
  const bool offers = amount_of(at.node->allocatable, at.facts.contract.core_resource) > 0;
  return at.facts.plugin_pods.known() && plugin_of(at) == nullptr &&
         !(offers && ready_of(at).status == "True");
}

constexpr Rule kNodes[] = {
    needs<&Facts::nodes>(),
    needs<&Facts::plugin_pods>(Level::kUnknown),
};

constexpr Rule kNode[] = {
    {Level::kWarning, "other software can allocate the cards of the node ({0}): {1}",
     kFollowMessage,
     [](At at) {
       const auto condition = exclusive_of(at);
       return when(condition.status == "False", condition.reason, condition.message);
     }},
    {Level::kNote, "it is not known who else can reach the cards of the node: {0}", kFollowMessage,
     [](At at) { return when(exclusive_of(at).status == "Unknown", exclusive_of(at).message); }},
    {Level::kWarning, "the annotation {0} cannot be read, so that no card is cordoned: {1}",
     to_run("kubectl annotate node NODE {0}-, which removes it"),
     [](At at) {
       return unreadable_annotation(at, at.facts.contract.cordoned_cards, read_cordoned(at));
     }},
    {Level::kNote, "cards are cordoned: {0}",
     to_run("kubectl mgpu uncordon-card NODE {1}, and so for the others, lets pods be placed on "
            "them again"),
     [](At at) {
       const auto cards = read_cordoned(at);
       if (!cards || cards->empty()) return Matches{};
       return when(true, format_card_indices(*cards), cards->front().value());
     }},
    {last(Level::kError), "no mgpu-device-plugin runs on the node",
     to_change("see whether the DaemonSet mgpu-device-plugin selects the node (labels, taints)"),
     [](At at) { return when(lacks_plugin(at)); }},
    {Level::kError, "the pod of mgpu-device-plugin is not ready ({0})",
     to_look("see kubectl logs and kubectl describe pod of that pod for the reason"),
     [](At at) {
       const ProgramPod* const plugin = plugin_of(at);
       if (plugin == nullptr) return Matches{};
       return when(!plugin->ready && !plugin->being_deleted, plugin->state());
     }},
    {Level::kError, "the node has no annotation {0}", kSeePluginLog,
     [](At at) {
       const std::string& name = at.facts.contract.node_cards;
       return when(!at.node->annotations.contains(name), name);
     }},
    {Level::kError, "the annotation {0} cannot be read: {1}", kSeePluginLog,
     [](At at) {
       return unreadable_annotation(at, at.facts.contract.node_cards, read_published(at));
     }},
    {Level::kWarning, "{0}",
     to_change("correct the labels of the node, or the profiles of the chart"),
     [](At at) {
       const std::string problem = published_by(at).profile.problem;
       return when(!problem.empty(), problem);
     }},
    {Level::kNote, "nothing limits the memory that containers with parts of cards use: {0}",
     to_change("where programs of several users share a card, correct what the message names, or "
               "set devicePlugin.isolation of the chart, or --isolation, to auto if it is none"),
     [](At at) {
       const std::string why = why_not_limited(ready_of(at).message);
       return when(published_by(at).profile.isolation == "none",
                   why.empty() ? "--isolation is none" : why)
           .as(why.empty() ? Level::kNote : Level::kWarning);
     }},
    {Level::kWarning, "card {0} is not healthy: {1}",
     to_look("see the message, and the log of the device plugin"),
     [](At at) {
       return each(published_by(at).cards, [](const CardFacts& card) {
         const bool meant = card.reserved() || card.partitioned();
         return when(!card.healthy() && !meant, card.index.value(), card.health);
       });
     }},
    {Level::kError, "the node has no {0}",
     to_look(
         "kubelet reports it while the device plugin is registered: see the condition MGPUReady"),
     [](At at) {
       const std::string& core = at.facts.contract.core_resource;
       return when(read_published(at) && !has_capacity(at, core), core);
     }},
    {Level::kError, "the node has no {0}", kSeePluginLog,
     [](At at) {
       const Contract& contract = at.facts.contract;
       return when(read_published(at) && has_capacity(at, contract.core_resource) &&
                       !has_capacity(at, contract.memory_resource),
                   contract.memory_resource);
     }},
    {last(Level::kNote), "the label {0} makes the device plugin release the driver",
     to_run("kubectl label node NODE {0}-, when the work on the node is done"),
     [](At at) {
       return when(text_or_empty(at.node->labels, at.facts.contract.release) == "true",
                   at.facts.contract.release);
     }},
    {last(Level::kError), "the node has no condition MGPUReady", kSeePluginLog,
     [](At at) { return when(ready_of(at).type.empty()); }},
    {Level::kWarning, "the condition MGPUReady is {0} ({1}): {2}", kFollowMessage,
     [](At at) {
       const auto ready = ready_of(at);
       return when(ready.status != "True", ready.status, ready.reason, ready.message)
           .as(ready.status == "False" ? Level::kError : Level::kWarning);
     }},
};

std::int64_t nodes_with_cards(const Facts& facts) {
  return std::ranges::count_if(
      items(facts.nodes), [&](const CheckedNode& node) { return has_cards(node, facts.contract); });
}

constexpr Rule kAllNodes[] = {
    {Level::kWarning, "no {1}node has cards",
     to_run("kubectl label node NODE {0}/mgpu-node=true, for each node with GPUs from which "
            "NVIDIA's device plugin and its pods are gone"),
     [](At at) {
       return when(nodes_with_cards(at.facts) == 0, at.facts.contract.domain,
                   at.facts.node_selector.empty() ? "" : "selected ");
     }},
    {Level::kOk, "{0} with cards checked", kNothing,
     [](At at) { return when(true, counted(nodes_with_cards(at.facts), "node")); }},
};

// --- kubelets ------------------------------------------------------------------------------------

// Null if the configuration of this kubelet is not known.
const KubeletGates* gates_of(At at) {
  const auto& all = items(at.facts.gates);
  const auto found = std::ranges::find(all, at.node->name, &KubeletGates::node);
  return found == all.end() ? nullptr : &*found;
}

bool is_off(const KubeletGates& kubelet, const std::string& gate) {
  const auto found = kubelet.gates.find(gate);
  return found != kubelet.gates.end() && !found->second;
}

constexpr Rule kKubeletVersion[] = {
    {Level::kError, "kubelet has version {0}, and mgpu needs 1.25 or later",
     to_change("upgrade kubelet"),
     [](At at) {
       const auto version = parse_version(at.node->kubelet_version);
       return when(version && *version < Version{1, 25, 0}, at.node->kubelet_version);
     }},
};

constexpr Rule kKubelets[] = {
    {last(Level::kNote), "the feature gates of the kubelets were not checked: {0}",
     to_change("use a context whose user may get nodes/proxy"),
     [](At at) { return when(!at.facts.gates.known(), at.facts.gates.problem()); }},
};

constexpr Rule kGates[] = {
    {Level::kError,
     "kubelet has the feature gate KubeletPodResources switched off, without which the shares of "
     "deleted pods are not released",
     to_change("remove it from featureGates of the configuration of kubelet"),
     [](At at) {
       const KubeletGates* const gates = gates_of(at);
       return when(gates != nullptr && is_off(*gates, "KubeletPodResources"));
     }},
    {Level::kNote,
     "kubelet 1.36 and 1.37 update the status of pods with shares every few seconds "
     "(kubernetes/kubernetes#142293)",
     to_change("set featureGates: {ResourceHealthStatus: false, ResourceHealthStatusMessage: "
               "false} in the configuration of kubelet"),
     [](At at) {
       const KubeletGates* const gates = gates_of(at);
       const auto version = parse_version(at.node->kubelet_version);
       return when(gates != nullptr && version && !(*version < Version{1, 36, 0}) &&
                   !is_off(*gates, "ResourceHealthStatus"));
     }},
};

constexpr Rule kAllKubelets[] = {
    {Level::kNote, "the feature gates of {0} of {1} kubelets were checked", kNothing,
     [](At at) {
       const std::int64_t asked = std::ssize(at.facts.gates.value());
       const std::int64_t nodes = nodes_with_cards(at.facts);
       return when(asked < nodes, asked, nodes);
     }},
    {Level::kOk, "the versions and feature gates of the kubelets suffice", kNothing, always},
};

}  // namespace

bool has_cards(const CheckedNode& node, const Contract& contract) {
  const std::string own = text_or_empty(node.labels, contract.domain + "/mgpu-node");
  if (own == "false") return false;
  return own == "true" || node.annotations.contains(contract.node_cards);
}

std::vector<Check> node_checks() {
  return {{"nodes",
           {{Each::kInstallation, kNodes}, {Each::kNode, kNode}, {Each::kInstallation, kAllNodes}}},
          {"kubelets",
           {{Each::kNode, kKubeletVersion},
            {Each::kInstallation, kKubelets},
            {Each::kNode, kGates},
            {Each::kInstallation, kAllKubelets}},
           [](const Facts& facts) { return nodes_with_cards(facts) > 0; }}};
}

}  // namespace mgpu::kubectl
