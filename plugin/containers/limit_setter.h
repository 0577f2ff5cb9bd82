// Sets the memory limits of a container in the driver, between the moment when its cgroup exists
// and the start of its program, and clears them at the end of its record. Limits that an earlier
// process set are not cleared; they end when the runtime removes the cgroup. If the container
// cannot be identified with certainty, set() fails and the container does not start.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/nvml/memory_limits.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// The limits of a bound container. A card of which it has all the compute needs none, because no
// other container uses it.
std::vector<CardLimit> limits_of(const Record& record);

// The path of a process in the cgroup v2 hierarchy. `text` is /proc/<pid>/cgroup. Errors: there are
// cgroup v1 hierarchies, or the path is not below the cgroup namespace of this process.
Result<std::string> cgroup_v2_path(std::string_view text);

// Any thread.
class LimitSetter {
 public:
  // `records` and `limits` outlive it. `proc_folder` is the node's /proc.
  LimitSetter(const Records& records, MemoryLimits& limits, std::string proc_folder);

  // Limits the container whose first process is `pid`. Errors: the allocation is not that of a
  // started container, the process is not of its pod, or the driver does not set the limits.
  Result<void> set(const AllocationId& id, std::int64_t pid);
  // Clears the limits of a container whose pod has ended, unless its cgroup was removed.
  void clear(const AllocationId& id);

 private:
  struct Limited {
    std::string cgroup;  // a folder
    std::vector<CardUuid> cards;
  };
  // The folder of the cgroup of the process, which must be of this pod.
  Result<std::string> cgroup_of(std::int64_t pid, const PodUid& uid) const;

  const Records& records_;
  MemoryLimits& limits_;
  const std::string proc_folder_;
  Mutex mutex_;
  // The last container of each allocation; at most one for each record.
  std::map<AllocationId, Limited> limited_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
