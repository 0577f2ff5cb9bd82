// The memory limits of cgroups that drivers of R615 and later enforce (docs.nvidia.com/deploy/mps,
// "MPS v3 Memory Partitioning", and nvmlDeviceSetMemoryLimits_v1 of NVML). All processes of the
// cgroup, and of the cgroups below it, share the limit; an allocation beyond it fails. The driver
// needs cgroup v2, forgets the limits of a cgroup that is removed, and has none for MIG devices.
//
// Only the hard limit is set. A soft limit reserves memory, which the driver adds to the cgroups
// above as well, and does not subtract again if the cgroup is removed as container runtimes do it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/cards/nvml/nvml_call.h"

namespace mgpu::plugin {

struct CardLimit {
  CardUuid card;
  MiB memory;
  bool operator==(const CardLimit&) const = default;
};

// A cgroup without processes when it is made, which exists as long as the object. Removing it
// clears its limits.
class EmptyCgroup {
 public:
  static Result<std::unique_ptr<EmptyCgroup>> make(std::string path);
  ~EmptyCgroup();
  EmptyCgroup(const EmptyCgroup&) = delete;
  EmptyCgroup& operator=(const EmptyCgroup&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit EmptyCgroup(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

// Any thread, see NvmlCalls.
class MemoryLimits {
 public:
  explicit MemoryLimits(NvmlCallOptions options);

  // Limits the processes of `cgroup`, a folder as this process sees it, and reads the limits back.
  // Errors: one sentence; some of the limits may be set.
  Result<void> set(const std::string& cgroup, const std::vector<CardLimit>& limits);
  // Removes the limits of the cgroup. A cgroup that does not exist has none.
  Result<void> clear(const std::string& cgroup, const std::vector<CardUuid>& cards);
  // Whether this node can have such limits at all: cgroup v2, and a driver with the functions. The
  // driver is not used. Errors: one sentence why not.
  Result<void> available() const;
  // Whether limits can be set for this card, on this node: sets one for a cgroup without processes,
  // which is removed again. Errors: one sentence why not.
  Result<void> check(const CardUuid& card);

  // The folder of the root cgroup, as this process sees it: "/sys/fs/cgroup".
  const std::string& cgroup_root() const { return cgroup_root_; }

 private:
  const NvmlCallOptions options_;
  const std::string cgroup_root_;
  NvmlCalls calls_;
};

}  // namespace mgpu::plugin
