// The pods that have processes on this node, whether or not the API server and kubelet still list
// them. When a pod is deleted with grace period 0, kubelet forgets its devices at once
// (kubelet 1.36, HandlePodRemoves and ManagerImpl.UpdateAllocatedDevices), and kills its containers
// 2 seconds later.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::plugin {

// Any thread.
class PodProcesses {
 public:
  // `proc_folder` is the node's /proc. In another process namespace than the node's, no pod has
  // processes.
  explicit PodProcesses(std::string proc_folder) : proc_folder_(std::move(proc_folder)) {}

  // Reads the cgroup of every process, some 20 us each. The pod of this process is left out.
  // Errors: the folder, or the file of a process that still exists, cannot be read.
  Result<std::set<PodUid>> pods() const;

 private:
  const std::string proc_folder_;
};

}  // namespace mgpu::plugin
