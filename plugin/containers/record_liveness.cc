#include "plugin/containers/record_liveness.h"

#include <algorithm>
#include <memory>

namespace mgpu::plugin {

bool RecordLiveness::ended(const Record& record) const {
  return record.bound() && at_kubelet && gone_at_api_server(record.owner->uid) &&
         !listed_at_kubelet(record) && !has_processes(record.owner->uid);
}

bool RecordLiveness::listed_at_kubelet(const Record& record) const {
  const auto listed = at_kubelet->find(record.owner->pod);
  if (listed == at_kubelet->end()) return false;
  if (!replaced_at_api_server(record.owner->pod, record.owner->uid)) return true;
  if (!checkpointed) return listed->second.contains(record.devices);
  const auto known = checkpointed->find(record.owner->uid);
  return known != checkpointed->end() &&
         std::ranges::any_of(listed->second, [&known](const DeviceSet& devices) {
           return known->second.contains(devices);
         });
}

std::vector<Record> RecordLiveness::without_ended(std::vector<Record> records) const {
  std::erase_if(records, [this](const Record& record) { return ended(record); });
  return records;
}

RecordLiveness liveness_of(const Pods& pods, const Result<std::vector<ContainerDevices>>& listed,
                           const Result<Checkpoint>& checkpoint, const PodProcesses& processes) {
  RecordLiveness liveness;
  liveness.gone_at_api_server = [&pods](const PodUid& uid) { return pods.gone(uid); };
  liveness.replaced_at_api_server = [&pods](const PodRef& pod, const PodUid& uid) {
    return pods.replaced(pod, uid);
  };
  const auto with_processes = std::make_shared<std::optional<Result<std::set<PodUid>>>>();
  liveness.has_processes = [&processes, with_processes](const PodUid& uid) {
    if (!*with_processes) *with_processes = processes.pods();
    return (*with_processes)->has_error() || (**with_processes)->contains(uid);
  };
  if (listed) {
    liveness.at_kubelet.emplace();
    for (const auto& one : *listed) (*liveness.at_kubelet)[one.pod].insert(one.devices);
  }
  if (checkpoint) {
    liveness.checkpointed.emplace();
    for (const auto& one : checkpoint->entries)
      (*liveness.checkpointed)[one.uid].insert(one.devices);
  }
  return liveness;
}

}  // namespace mgpu::plugin
