// Decides which records count: a share is free only after the API server and kubelet both report
// that its pod has ended. Pure, except for liveness_of().
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/containers/pods.h"
#include "plugin/kubelet/pod_resources.h"

namespace mgpu::plugin {

// What the API server and kubelet report at one moment.
struct RecordLiveness {
  // The pods of this node are known, and this pod is not among them or has finished.
  std::function<bool(const PodUid&)> gone_at_api_server;
  // Another pod of the same name exists at the API server. kubelet lists names without UIDs, so
  // that its entry belongs to that pod, as for the pods of a StatefulSet.
  std::function<bool(const PodRef&, const PodUid&)> replaced_at_api_server;
  // Pods that kubelet lists. Not set if kubelet did not answer.
  std::optional<std::set<PodRef>> at_kubelet;

  // The record is bound, and its pod has ended.
  bool ended(const Record& record) const;
  std::vector<Record> without_ended(std::vector<Record> records) const;
};

// `listed` is kubelet's response. `pods` outlives the result.
RecordLiveness liveness_of(const Pods& pods, const Result<std::vector<ContainerDevices>>& listed);

}  // namespace mgpu::plugin
