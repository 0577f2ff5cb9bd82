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

std::string_view words(Standing standing) {
  switch (standing) {
    case Standing::kUnbound:
      return "is not bound";
    case Standing::kOurs:
    case Standing::kHere:
      return "is bound, with its cards";
    case Standing::kHereBare:
      return "is bound already, without cards";
    case Standing::kElsewhere:
      return "is bound already, to node ";
    case Standing::kAnother:
      return "is another pod by now, with uid ";
    case Standing::kEnding:
      return "is being deleted or has finished";
  }
  return "";
}

}  // namespace

Standing standing_of(const kube::Pod& pod, const PodUid& uid, const NodeName& node,
                     const Annotations& annotations, const Contract& contract) {
  if (pod.uid() != uid) return Standing::kAnother;
  if (pod.node_name.empty()) {
    const bool ending = pod.metadata.being_deleted || pod.finished();
    return ending ? Standing::kEnding : Standing::kUnbound;
  }
  if (pod.node_name != node.str()) return Standing::kElsewhere;
  if (carries_all(pod, annotations)) return Standing::kOurs;
  return carries(pod, contract.assumed, "true") ? Standing::kHere : Standing::kHereBare;
}

std::string sentence_of(Standing standing, const kube::Pod& pod) {
  std::string sentence = "pod " + to_string(pod.ref()) + " ";
  sentence += words(standing);
  if (standing == Standing::kElsewhere) sentence += pod.node_name;
  if (standing == Standing::kAnother) sentence += pod.metadata.uid;
  return sentence;
}

}  // namespace mgpu::extender
