// Reads the answers of the extender's inspection listener.
#include <cstdint>

#include "common/kube/objects/json_value.h"
#include "extender/kubectl/doctor/read_facts.h"

namespace mgpu::kubectl {
namespace {

using kube::JsonValue;

Drifting read_drifting(JsonValue& from) {
  Drifting drifting;
  from.read({{"namespace", drifting.pod.name_space},
             {"name", drifting.pod.name},
             {"node", drifting.node},
             {"drift", drifting.kind},
             {"driftDetail", drifting.detail}});
  return drifting;
}

}  // namespace

Result<Readiness> read_readiness(std::string_view json) {
  Readiness readiness;
  auto read = kube::read_json(json, [&](JsonValue& root) {
    root.read({{"ready", readiness.ready},
               {"waiting_for", readiness.waiting_for},
               {"without", readiness.without},
               {"api_server", readiness.api_server},
               {"unreadable_objects", [&](JsonValue& counts) {
                  counts.members([&](std::string_view collection, JsonValue& count) {
                    readiness.unreadable[std::string(collection)] = count.int32();
                  });
                }}});
  });
  if (!read) return read.error();
  return readiness;
}

Result<InspectedCluster> read_inspected_cluster(std::string_view json) {
  InspectedCluster cluster;
  auto read = kube::read_json(json, [&](JsonValue& root) {
    const auto totals = [&](JsonValue& value) {
      value.read({{"cardsOverfull", cluster.cards_overfull}});
    };
    root.read({{"totals", totals},
               {"drift", [&](JsonValue& list) { cluster.drift = list.list(read_drifting); }}});
  });
  if (!read) return read.error();
  return cluster;
}

}  // namespace mgpu::kubectl
