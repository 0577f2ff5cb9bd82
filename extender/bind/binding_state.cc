#include "extender/bind/binding_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace mgpu::extender {

BindingState binding_state_of(const kube::Pod& pod, const PodUid& uid, const NodeName& node,
                              const Annotations& annotations, const Contract& contract) {
  const auto has = [&](std::string_view key, std::string_view value) {
    const auto found = pod.metadata.annotations.find(key);
    return found != pod.metadata.annotations.end() && found->second == value;
  };
  if (pod.uid() != uid) return BindingState::kAnotherPod;
  if (pod.node_name.empty()) {
    const bool terminating = pod.metadata.being_deleted || pod.finished();
    return terminating ? BindingState::kTerminating : BindingState::kUnbound;
  }
  if (pod.node_name != node.str()) return BindingState::kBoundElsewhere;
  // An earlier attempt may have bound the pod to the same node with other cards.
  if (std::ranges::all_of(annotations, [&](const auto& one) { return has(one.first, one.second); }))
    return BindingState::kBoundAsPosted;
  return has(contract.assumed, "true") ? BindingState::kBoundWithOtherCards
                                       : BindingState::kBoundWithoutCards;
}

std::string sentence_of(BindingState state, const kube::Pod& pod) {
  const std::string name = "pod " + to_string(pod.ref());
  switch (state) {
    case BindingState::kUnbound:
      return name + " is not bound";
    case BindingState::kBoundAsPosted:
    case BindingState::kBoundWithOtherCards:
      return name + " is bound, with its cards";
    case BindingState::kBoundWithoutCards:
      return name + " is bound already, without cards";
    case BindingState::kBoundElsewhere:
      return fmt::format("{} is bound already, to node {}", name, pod.node_name);
    case BindingState::kAnotherPod:
      return name + " was deleted and created again, with another uid";
    case BindingState::kTerminating:
      return name + " is being deleted or has finished";
  }
  return name;
}

}  // namespace mgpu::extender
