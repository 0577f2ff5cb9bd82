#include <algorithm>

#include "common/contract/contract.h"
#include "common/kube/objects/object_json.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/completion.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// The nodes that carry cards, with their annotation; without a name, all of them.
std::vector<std::string> names_of_nodes(Api& api, const Contract& contract,
                                        const std::string& selector) {
  std::vector<std::string> names;
  api.list({"/api/v1/nodes", "", selector}, "list nodes", [&](const std::string& text) {
    const auto node = kube::read_node(text);
    if (!node) return;
    const bool has_cards = node->metadata.annotations.contains(contract.node_cards) ||
                           node->capacity.contains(contract.core_resource);
    if (has_cards) names.push_back(node->metadata.name);
  });
  return names;
}

std::vector<std::string> cards_of_node(Api& api, const Contract& contract,
                                       const std::string& name) {
  if (!check_name("NODE", name)) return {};
  const auto body = api.get(kube::get_node(NodeName(name)).target, "get node " + name);
  if (!body.known()) return {};
  const auto node = kube::read_node(body.value());
  if (!node) return {};
  const auto annotation = node->metadata.annotations.find(contract.node_cards);
  if (annotation == node->metadata.annotations.end()) return {};
  const auto cards = parse_node_cards(annotation->second);
  if (!cards) return {};
  std::vector<std::string> indices;
  for (const CardFacts& card : *cards) indices.push_back(std::to_string(card.index.value()));
  return indices;
}

std::vector<std::string> names_of_pods(Api& api, const Contract& contract,
                                       const std::string& name_space, const std::string& selector) {
  if (!check_name("--namespace", name_space)) return {};
  const auto pods = read_pods(api, {.selector = selector}, name_space, contract);
  std::vector<std::string> names;
  if (!pods) return names;
  for (const PodRow& pod : *pods) names.push_back(pod.ref.name);
  return names;
}

std::vector<std::string> names_of_namespaces(Api& api) {
  std::vector<std::string> names;
  api.list({"/api/v1/namespaces", ""}, "list namespaces", [&](const std::string& text) {
    // A namespace has the same metadata, and nothing else of it is wanted.
    if (const auto one = kube::read_node(text)) names.push_back(one->metadata.name);
  });
  return names;
}

}  // namespace

std::vector<std::string> read_names(const NamesWanted& wanted) {
  const std::string domain = text_or_empty(wanted.flags, "--resource-domain");
  const auto contract = Contract::for_domain(domain.empty() ? kDefaultResourceDomain : domain);
  if (!contract) return {};
  const auto cluster = Cluster::connect({.kubeconfig = text_or_empty(wanted.flags, "--kubeconfig"),
                                         .context = text_or_empty(wanted.flags, "--context"),
                                         .as = text_or_empty(wanted.flags, "--as"),
                                         .request_timeout = kProposalTimeout});
  if (!cluster) return {};
  Api& api = (*cluster)->api();
  const std::string selector = text_or_empty(wanted.flags, "--selector");
  const std::string name_space =
      namespace_of(text_or_empty(wanted.flags, "--namespace"), (*cluster)->config());
  switch (wanted.of) {
    case NamesWanted::Of::kNodes:
      return names_of_nodes(api, *contract, selector);
    case NamesWanted::Of::kCards:
      return cards_of_node(api, *contract, wanted.words.front());
    case NamesWanted::Of::kPods:
      return names_of_pods(api, *contract, name_space, selector);
    case NamesWanted::Of::kNamespaces:
      return names_of_namespaces(api);
  }
  return {};
}

}  // namespace mgpu::kubectl
