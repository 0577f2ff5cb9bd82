// From a process to its container, by the cgroup it is in. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace mgpu::plugin {

struct CgroupContainer {
  PodUid uid;                // with dashes, as Kubernetes writes it (static pods: 32 hex digits)
  std::string container_id;  // 64 hex digits
  bool operator==(const CgroupContainer&) const = default;
};

// `text` is /proc/<pid>/cgroup: cgroup v1, v2 or both, drivers cgroupfs and systemd, as containerd,
// CRI-O and docker name them, below any parent. None: not a container of a pod.
std::optional<CgroupContainer> container_of(std::string_view text);

}  // namespace mgpu::plugin
