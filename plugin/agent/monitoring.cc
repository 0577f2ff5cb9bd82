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

}  // namespace

Monitoring::Monitoring(Parts parts, Settings settings)
    : parts_(parts),
      mps_(settings.mps),
      sampler_(std::move(settings.proc_folder)),
      watchdog_(settings.context),
      metrics_(parts.metrics, std::move(settings.node), parts.inventory.description()) {}

std::vector<CardProcess> Monitoring::processes_of(const std::vector<CardUse>& use) const {
  std::vector<CardProcess> processes;
  for (const CardUse& card : use) {
    for (const ProcessUse& one : card.processes) {
      processes.push_back({card.uuid, one.pid, one.memory, one.sm_percent, mps_ && one.without_mps,
                           mps_ && one.client});
    }
  }
  return processes;
}

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

CardProcesses Monitoring::card_processes(const std::vector<CardUse>& use,
                                         std::vector<ProcessSample> samples) const {
  CardProcesses processes{
      .samples = std::move(samples), .complete = {}, .doubtful = sampler_.incomplete()};
  for (const CardUse& card : use) {
    if (card.listed && !processes.doubtful.contains(card.uuid)) {
      processes.complete.insert(card.uuid);
    }
  }
  return processes;
}

Monitoring::Found Monitoring::sample() {
  const std::uint64_t reads = parts_.inventory.reads();
  const auto use = parts_.inventory.use();
  auto samples = sampler_.sample(processes_of(use));
  const auto joined = join(parts_.records.bound(), samples, names());
  Found found{watchdog_.step(joined.containers), bypass_watch_.step(joined.containers)};
  metrics_.update(readings(use), joined, found.over);
  if (parts_.use != nullptr) {
    parts_.use->add(joined.containers, use, parts_.inventory.state().cards, reads);
  }
  found.processes = card_processes(use, std::move(samples));
  return found;
}

}  // namespace mgpu::plugin
