#include "plugin/containers/record_liveness.h"

#include <algorithm>
#include <memory>

#include "common/base/check.h"

namespace mgpu::plugin {

bool RecordLiveness::ended(const Record& record) const {
  if (!record.bound() || !gone_at_api_server(record.owner->uid)) return false;
  const PodUid& uid = record.owner->uid;
  // A pod may have been reported as failed while its node was away, and then it still runs.
  if (finished_at_api_server(uid) && sees_processes()) return !has_processes(uid);
  return at_kubelet && !listed_at_kubelet(record) && !has_processes(uid);
}

bool RecordLiveness::listed_at_kubelet(const Record& record) const {
  MGPU_DEBUG_CHECK(at_kubelet && record.bound(), "kubelet has answered for a pod");
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
  liveness.finished_at_api_server = [&pods](const PodUid& uid) { return pods.finished(uid); };
  const auto read = std::make_shared<std::optional<Result<std::set<PodUid>>>>();
  const auto with_processes = [&processes, read]() -> const Result<std::set<PodUid>>& {
    if (!*read) *read = processes.pods();
    return **read;
  };
  liveness.has_processes = [with_processes](const PodUid& uid) {
    // What cannot be read counts as running, so that no share is given out twice.
    return with_processes().has_error() || with_processes()->contains(uid);
  };
  liveness.sees_processes = [with_processes] {
    return with_processes().has_value() && !with_processes()->empty();
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
