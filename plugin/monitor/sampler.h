// Where the processes on the cards belong: reads their cgroups below a /proc. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/units.h"
#include "plugin/monitor/join.h"

namespace mgpu::plugin {

// What the driver says of one process on one card.
struct CardProcess {
  CardUuid card;
  std::int64_t pid = 0;              // in the pid namespace of the node
  std::optional<MiB> memory;         // none: not known
  std::optional<double> sm_percent;  // none: no sample
};

class ProcessSampler {
 public:
  // `proc_root` is the node's /proc, as seen from here.
  explicit ProcessSampler(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  // Processes that have ended since the driver spoke are left out, as are pids that are none (the
  // driver gives 0 for what it cannot name). One small file is read per process, and its cgroup
  // once: a container's processes stay in theirs.
  std::vector<ProcessSample> sample(const std::vector<CardProcess>& processes);

  // Of the last sample, processes that were left out. All of them, again and again: proc_root is
  // not the node's.
  std::size_t absent() const { return absent_; }

 private:
  // A pid is given out again, but not with the same start.
  struct Known {
    std::uint64_t start_time = 0;
    CgroupContainer container;
  };

  std::optional<std::uint64_t> start_time_of(std::int64_t pid) const;
  std::optional<ProcessSample> sample_one(const CardProcess& process);

  std::string proc_root_;
  std::map<std::int64_t, Known> known_;
  std::size_t absent_ = 0;
};

}  // namespace mgpu::plugin
