#include "plugin/containers/record_liveness.h"

namespace mgpu::plugin {

bool RecordLiveness::ended(const Record& record) const {
  if (!record.bound() || !at_kubelet || !gone_at_api_server(record.owner->uid)) return false;
  return !at_kubelet->contains(record.owner->pod) ||
         replaced_at_api_server(record.owner->pod, record.owner->uid);
}

std::vector<Record> RecordLiveness::without_ended(std::vector<Record> records) const {
  std::erase_if(records, [this](const Record& record) { return ended(record); });
  return records;
}

RecordLiveness liveness_of(const Pods& pods, const Result<std::vector<ContainerDevices>>& listed) {
  RecordLiveness liveness;
  liveness.gone_at_api_server = [&pods](const PodUid& uid) { return pods.gone(uid); };
  liveness.replaced_at_api_server = [&pods](const PodRef& pod, const PodUid& uid) {
    return pods.replaced(pod, uid);
  };
  if (!listed) return liveness;
  liveness.at_kubelet.emplace();
  for (const ContainerDevices& one : *listed) liveness.at_kubelet->insert(one.pod);
  return liveness;
}

}  // namespace mgpu::plugin
