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

// Without a sample a container has certainly used nothing if the driver measures all processes,
// or all but clients of MPS and it has no process.
std::optional<double> known_percent(const ContainerUse& use, const CardUse& card) {
  if (!card.listed) return std::nullopt;
  if (use.sm_percent) return use.sm_percent;
  const bool is_idle = card.measured && (card.clients_measured || use.processes == 0);
  return is_idle ? std::optional<double>(0) : std::nullopt;
}

}  // namespace

Monitoring::Monitoring(Dependencies dependencies, Options options)
    : dependencies_(dependencies),
      mps_(options.mps),
      sampler_(std::move(options.proc_folder)),
      watchdog_(options.context),
      metrics_(dependencies.metrics, std::move(options.node),
               dependencies.inventory.description()) {}

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

Monitoring::KnownPods Monitoring::known_pods() const {
  // First, since the list may arrive in between.
  KnownPods pods{.listed = dependencies_.pods.listed()};
  for (const kube::Pod& pod : dependencies_.pods.all()) {
    if (!pod.finished()) pods.owners.emplace(pod.uid(), kube::owner_of(pod));
    for (const kube::ContainerStatus& status : pod.container_statuses) {
      if (!status.id.empty()) pods.names[bare_id(status.id)] = status.name;
    }
  }
  return pods;
}

// Leaves out containers without a process that hold their share no longer: those of ended pods, and
// init containers that others have followed. Kubernetes and the scheduler give their room to
// others.
void Monitoring::complete(const KnownPods& pods, const std::vector<CardUse>& use,
                          std::vector<ContainerUse>& containers) {
  std::erase_if(containers, [&](const ContainerUse& container) {
    const bool ended = pods.listed && !pods.owners.contains(container.owner.uid);
    return container.processes == 0 && (container.followed || ended);
  });
  for (ContainerUse& container : containers) {
    const auto owner = pods.owners.find(container.owner.uid);
    if (owner != pods.owners.end()) container.pod_owner = owner->second;
    const auto card = std::ranges::find(use, container.grant.uuid, &CardUse::uuid);
    if (card != use.end()) container.known_percent = known_percent(container, *card);
  }
}

std::vector<CardReading> Monitoring::readings(const std::vector<CardUse>& use) const {
  std::vector<CardReading> readings;
  for (const CardFacts& card : dependencies_.inventory.state().cards) {
    const auto at = std::ranges::find(use, card.uuid, &CardUse::uuid);
    readings.push_back(at == use.end() ? CardReading{card, {}, {}}
                                       : CardReading{card, at->memory_used, at->sm_percent});
  }
  return readings;
}

std::vector<ContainerUse> Monitoring::count_uncounted(const std::vector<Record>& records,
                                                      bool fresh,
                                                      std::vector<ContainerUse>& containers) {
  std::map<std::pair<PodUid, std::string>, AllocationId> ids;
  for (const Record& record : records) {
    ids.emplace(std::pair(record.owner->uid, record.owner->container), record.id);
  }
  const auto id_of = [&](const ContainerUse& use) {
    return ids.at({use.owner.uid, use.owner.container});
  };
  for (ContainerUse& use : containers) {
    const auto reserved = dependencies_.reserved.most(id_of(use));
    const auto of_card = reserved.find(use.grant.uuid);
    if (of_card != reserved.end()) use.reserved = of_card->second;
  }
  auto found = uncounted_watch_.step(containers, fresh);
  std::map<std::pair<AllocationId, CardUuid>, MiB> overhead;
  for (const ContainerUse& use : containers) {
    if (!use.reserved) continue;
    const std::pair key(id_of(use), use.grant.uuid);
    const auto before = overhead_.find(key);
    // A container that has started again has pages without it.
    const bool same = before != overhead_.end() && before->second == use.uncounted;
    if (!same || !use.uncounted.zero()) {
      dependencies_.pages.set_overhead(key.first, key.second, use.uncounted);
    }
    overhead.emplace(key, use.uncounted);
  }
  overhead_ = std::move(overhead);
  return found;
}

Monitoring::Found Monitoring::sample(Instant now) {
  const std::uint64_t reads = dependencies_.inventory.reads();
  const auto records = dependencies_.records.bound();
  const auto use = dependencies_.inventory.use();
  auto samples = sampler_.sample(processes_of(use));
  const KnownPods pods = known_pods();
  auto joined = join(records, samples, pods.names);
  Found found;
  const bool fresh = std::exchange(reads_, reads) != reads;
  found.uncounted = count_uncounted(records, fresh, joined.containers);
  found.over = watchdog_.step(joined.containers);
  found.without_mps = bypass_watch_.step(joined.containers);
  complete(pods, use, joined.containers);
  metrics_.update(readings(use), joined, found.over, {now, fresh});
  found.processes = std::move(samples);
  return found;
}

}  // namespace mgpu::plugin
