// The driver's memory limits on this node (memory_limits.h): the cards for which they work, and the
// hook that has them set before the program of a container starts (LimitSetter). Isolation owns it.
// One thread calls problem_of_all() and set_up(), and the same, or another after it has ended,
// stop(). problem_of() and clear() are for any thread. hook() is for the first one and for
// containers that start, which none does during set_up() (Isolation::switch_to).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/agent/isolation_options.h"
#include "plugin/cards/nvml/memory_limits.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/limit_server.h"
#include "plugin/containers/limit_setter.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class DriverLimits {
 public:
  // Both outlive it.
  DriverLimits(const IsolationOptions& options, const Records& records)
      : options_(options), setter_(records, limits_, options.proc_folder) {}

  // Returns why the driver cannot limit memory on this node, which has these cards: it has no such
  // limits, or can set them for none of the cards. One sentence; empty: it can set them for one of
  // the cards, or could earlier, or there are no cards. Blocks while the driver does.
  std::string problem_of_all(std::vector<CardFacts> cards);
  // Installs the hook and answers it, for the driver to limit memory from now on. The error is also
  // the problem of the hook.
  Result<void> set_up();
  // Answers no more hooks. Containers that run keep their limits.
  void stop() { server_.reset(); }

  // Why this card must not be offered: its limits cannot be set. One sentence; empty: they can.
  // Logs a new problem. Blocks while the driver does. REQUIRES: the driver limits memory.
  std::string problem_of(const CardUuid& card);
  const LimitHook& hook() const { return hook_; }
  // The record of a container was removed.
  void clear(const AllocationId& id) { setter_.clear(id); }

 private:
  Result<void> serve_hook();
  // Why limits cannot be set for this card. One sentence; empty: they can.
  std::string check(const CardUuid& card);
  void note_worked();

  const IsolationOptions& options_;
  // Exists if the driver has limited memory on this node.
  const std::string worked_file_{options_.hook_folder + "/driver-limits"};
  MemoryLimits limits_{options_.nvml};
  LimitSetter setter_;
  LimitHook hook_;  // its problem is changed, and read by problem_of(), with the mutex held

  Mutex mutex_;
  std::set<CardUuid> limitable_ MGPU_GUARDED_BY(mutex_);
  std::map<CardUuid, std::string> logged_ MGPU_GUARDED_BY(mutex_);
  std::atomic<bool> noted_ = false;  // that the driver has limited memory
  // It is the last member, so that its thread, which uses the others, ends before them.
  std::unique_ptr<LimitServer> server_;
};

}  // namespace mgpu::plugin
