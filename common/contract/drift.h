// Drift: what does not agree between pods, the cards that they hold, and the processes on the
// cards. The extender finds it in the API server, and the device plugin on its node. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace mgpu {

enum class DriftKind : std::uint8_t {
  kChangedAnnotations,
  kProcessWithoutShare,
  kOverfullCard,
  kBindingWithoutCards,
};

struct DriftTexts {
  std::string_view name;      // in metrics, Events and JSON
  std::string_view sentence;  // what does not agree
  std::string_view remedy;    // what to do
};

constexpr DriftTexts texts_of(DriftKind kind) {
  switch (kind) {
    case DriftKind::kChangedAnnotations:
      return {"ChangedAnnotations",
              "the annotations of a pod name other cards than those that it was bound with",
              "write the annotations of the binding again, or delete the pod"};
    case DriftKind::kProcessWithoutShare:
      return {"ProcessWithoutShare", "a process uses a card of which its container holds no share",
              "delete the pod, and create it with a request and without other access to the "
              "cards: privileged, a volume of /dev, or NVIDIA_VISIBLE_DEVICES"};
    case DriftKind::kOverfullCard:
      return {"OverfullCard", "the pods on a card hold more of it than it has",
              "delete those that were bound without mgpu-extender or before the cards of the node "
              "changed, else the one that was bound last"};
    case DriftKind::kBindingWithoutCards:
      break;
  }
  return {"BindingWithoutCards",
          "the cards that a pod was bound with are not known, or its node does not have them",
          "delete the pod"};
}
constexpr std::string_view to_string(DriftKind kind) {
  return texts_of(kind).name;
}

}  // namespace mgpu
