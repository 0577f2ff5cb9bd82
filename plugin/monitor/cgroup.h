// Finds the container of a process from its cgroup. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace mgpu::plugin {

struct CgroupContainer {
  PodUid uid;                // with dashes; of a static pod, 32 hexadecimal digits
  std::string container_id;  // 64 hexadecimal digits
  bool operator==(const CgroupContainer&) const = default;
};

// `text` is /proc/<pid>/cgroup: cgroup v1, v2 or both, with the cgroup drivers cgroupfs and
// systemd, the names of containerd, CRI-O and docker, and any parent. Returns nothing if the
// process is in no container of a pod.
std::optional<CgroupContainer> container_of(std::string_view text);

}  // namespace mgpu::plugin
