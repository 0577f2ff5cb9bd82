// Finds the containers of the processes on the cards, from their cgroups in /proc. One thread.
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

// A process on a card, as reported by the driver.
struct CardProcess {
  CardUuid card;
  std::int64_t pid = 0;              // in the node's pid namespace
  std::optional<MiB> memory;         // not set if unknown
  std::optional<double> sm_percent;  // not set without a sample
  bool without_mps = false;          // see ProcessUse
  bool client = false;               // of mgpu's MPS
};

class ProcessSampler {
 public:
  // `proc_root` is the path of the node's /proc.
  explicit ProcessSampler(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  // Skips processes that have ended since the driver reported them, and invalid pids (the driver
  // reports 0 for processes that it cannot see). The cgroup of a process is read once, since
  // processes of a container do not leave its cgroup.
  std::vector<ProcessSample> sample(const std::vector<CardProcess>& processes);

 private:
  // The start time identifies a process, since pids are reused.
  struct Known {
    std::uint64_t start_time = 0;
    CgroupContainer container;
  };

  // What /proc/<pid>/stat has of a process.
  struct Stat {
    std::uint64_t start_time = 0;
    std::string program;
  };

  std::optional<Stat> stat_of(std::int64_t pid) const;
  std::optional<ProcessSample> sample_one(const CardProcess& process);

  std::string proc_root_;
  std::map<std::int64_t, Known> known_;
};

}  // namespace mgpu::plugin
