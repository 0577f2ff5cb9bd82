// Decides which records count. A share is free when the API server reports that the pod has ended,
// kubelet does not list it, and it has no process. If the API server reports the pod as succeeded
// or failed and processes of pods can be seen, the absence of processes suffices: before Kubernetes
// 1.34 kubelet lists finished pods (kubernetes/kubernetes issue 132020). Pure, except for
// liveness_of().
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/containers/pod_processes.h"
#include "plugin/containers/pods.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/pod_resources.h"

namespace mgpu::plugin {

// What the API server, kubelet and /proc report at one moment.
struct RecordLiveness {
  // The pods of this node are known, and this pod is not among them or has finished.
  std::function<bool(const PodUid&)> gone_at_api_server;
  // The pods of this node are known, and this one has succeeded or failed, so that its containers
  // do not start again.
  std::function<bool(const PodUid&)> finished_at_api_server;
  // Another pod of the same name exists at the API server.
  std::function<bool(const PodRef&, const PodUid&)> replaced_at_api_server;
  // The devices of each pod that kubelet lists. Not set if kubelet did not answer.
  std::optional<std::map<PodRef, std::set<DeviceSet>>> at_kubelet;
  // The devices of each pod in kubelet's checkpoint, which may still have ended pods. Not set if it
  // could not be read.
  std::optional<std::map<PodUid, std::set<DeviceSet>>> checkpointed;

  // The pod has processes on this node, or they cannot be read.
  std::function<bool(const PodUid&)> has_processes;
  // The processes of pods can be seen: some pod has one.
  std::function<bool()> sees_processes;

  // The record is bound, and its pod has ended.
  bool ended(const Record& record) const;
  std::vector<Record> without_ended(std::vector<Record> records) const;

 private:
  // kubelet lists names without UIDs. An entry belongs to the pod of this record unless another pod
  // has the name, as for the pods of a StatefulSet, and the devices are not those of this pod.
  bool listed_at_kubelet(const Record& record) const;
};

// `listed` is kubelet's response, and `checkpoint` was read after it. `pods` and `processes`
// outlive the result. Processes are read at most once, if a pod may have ended.
RecordLiveness liveness_of(const Pods& pods, const Result<std::vector<ContainerDevices>>& listed,
                           const Result<Checkpoint>& checkpoint, const PodProcesses& processes);

}  // namespace mgpu::plugin
