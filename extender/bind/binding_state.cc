#include "extender/bind/binding_state.h"

#include <algorithm>
#include <string_view>

namespace mgpu::extender {
namespace {

bool carries(const kube::Pod& pod, std::string_view key, std::string_view value) {
  const auto found = pod.metadata.annotations.find(key);
  return found != pod.metadata.annotations.end() && found->second == value;
}

bool carries_all(const kube::Pod& pod, const Annotations& annotations) {
  return std::ranges::all_of(annotations, [&](const auto& annotation) {
    return carries(pod, annotation.first, annotation.second);
  });
}

std::string_view words(BindingState standing) {
  switch (standing) {
    case BindingState::kUnbound:
      return "is not bound";
    case BindingState::kOurs:
    case BindingState::kHere:
      return "is bound, with its cards";
    case BindingState::kHereBare:
      return "is bound already, without cards";
    case BindingState::kElsewhere:
      return "is bound already, to node ";
    case BindingState::kAnother:
      return "is another pod by now, with uid ";
    case BindingState::kEnding:
      return "is being deleted or has finished";
  }
  return "";
}

}  // namespace

BindingState standing_of(const kube::Pod& pod, const PodUid& uid, const NodeName& node,
                         const Annotations& annotations, const Contract& contract) {
  if (pod.uid() != uid) return BindingState::kAnother;
  if (pod.node_name.empty()) {
    const bool ending = pod.metadata.being_deleted || pod.finished();
    return ending ? BindingState::kEnding : BindingState::kUnbound;
  }
  if (pod.node_name != node.str()) return BindingState::kElsewhere;
  if (carries_all(pod, annotations)) return BindingState::kOurs;
  return carries(pod, contract.assumed, "true") ? BindingState::kHere : BindingState::kHereBare;
}

std::string sentence_of(BindingState standing, const kube::Pod& pod) {
  std::string sentence = "pod " + to_string(pod.ref()) + " ";
  sentence += words(standing);
  if (standing == BindingState::kElsewhere) sentence += pod.node_name;
  if (standing == BindingState::kAnother) sentence += pod.metadata.uid;
  return sentence;
}

}  // namespace mgpu::extender
