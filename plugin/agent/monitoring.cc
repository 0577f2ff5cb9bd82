#include "plugin/agent/monitoring.h"

#include <algorithm>
#include <utility>

namespace mgpu::plugin {

namespace {

// Removes the runtime's name from "containerd://<id>".
std::string bare_id(const std::string& id) {
  const auto at = id.find("://");
  return at == std::string::npos ? id : id.substr(at + 3);
}

std::vector<CardProcess> processes_of(const std::vector<CardUse>& use) {
  std::vector<CardProcess> processes;
  for (const CardUse& card : use) {
    for (const ProcessUse& one : card.processes) {
      processes.push_back({card.uuid, one.pid, one.memory, one.sm_percent});
    }
  }
  return processes;
}

}  // namespace

Monitoring::Monitoring(Parts parts, NodeName node, std::string proc_folder, MiB context)
    : parts_(parts),
      sampler_(std::move(proc_folder)),
      watchdog_(context),
      metrics_(parts.metrics, std::move(node), parts.inventory.description()) {}

ContainerNames Monitoring::names() const {
  ContainerNames names;
  for (const kube::Pod& pod : parts_.pods.all()) {
    for (const kube::ContainerStatus& status : pod.container_statuses) {
      if (!status.id.empty()) names[bare_id(status.id)] = status.name;
    }
  }
  return names;
}

std::vector<CardReading> Monitoring::readings(const std::vector<CardUse>& use) const {
  std::vector<CardReading> readings;
  for (const CardFacts& card : parts_.inventory.state().cards) {
    const auto at = std::ranges::find(use, card.uuid, &CardUse::uuid);
    readings.push_back(at == use.end() ? CardReading{card, {}, {}}
                                       : CardReading{card, at->memory_used, at->sm_percent});
  }
  return readings;
}

std::vector<Overuse> Monitoring::sample() {
  const auto use = parts_.inventory.use();
  const auto joined = join(parts_.records.bound(), sampler_.sample(processes_of(use)), names());
  auto over = watchdog_.step(joined.containers);
  metrics_.update(readings(use), joined, over);
  return over;
}

}  // namespace mgpu::plugin
