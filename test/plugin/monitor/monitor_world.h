// Short functions that make records, processes and container ids for the tests of this folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugin/monitor/join.h"

namespace mgpu::plugin {

inline CardUuid card(int n) {
  return CardUuid("GPU-" + std::to_string(n));
}

inline CardGrant grant(int n, std::int64_t core, std::int64_t memory) {
  return {CardIndex(n), card(n), {Percent(core), MiB(memory)}};
}

// A bound record of container `container` of pod `pod`, whose uid is "uid-<pod>".
inline Record record(const std::string& pod, const std::string& container,
                     std::vector<CardGrant> cards) {
  Record made;
  made.owner = Owner{{"ml", pod}, PodUid("uid-" + pod), container, {}, 0};
  made.cards = std::move(cards);
  return made;
}

// A process of the container whose id is "id-<pod>-<container>". Without a pod, outside of pods.
inline ProcessSample process(int on_card, std::int64_t pid, std::int64_t memory,
                             const std::string& pod = "", const std::string& container = "") {
  ProcessSample made{card(on_card), pid, MiB(memory), {}, {}};
  if (!pod.empty()) {
    made.container = CgroupContainer{PodUid("uid-" + pod), "id-" + pod + "-" + container};
  }
  return made;
}

inline ContainerNames names(const std::vector<std::pair<std::string, std::string>>& containers) {
  ContainerNames made;
  for (const auto& [pod, container] : containers) made["id-" + pod + "-" + container] = container;
  return made;
}

}  // namespace mgpu::plugin
