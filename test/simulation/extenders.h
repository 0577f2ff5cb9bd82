// The extender processes of the cluster. One serves kube-scheduler. A process that is killed, or
// has lost the Lease, is followed by another one; a process that is replaced does not know it, and
// goes on for some time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "test/simulation/extender_process.h"

namespace mgpu::simulation {

class Extenders {
 public:
  // Both outlive it. Starts the first process.
  Extenders(kube::MemoryApiServer& server, const Contract& contract);

  // The last process that was started; null where it has ended.
  ExtenderProcess* newest() { return find(newest_); }
  FaultQueue& faults() { return faults_; }

  // Calls a verb, as kube-scheduler does: `done` gets the status and the body, or status 0 where no
  // process runs. It may never be called.
  void call(const std::string& verb, std::string body,
            const std::function<void(int status, const std::string& body)>& done);

  void kill();
  // The process is frozen, or paused with its machine, for `time`, and another one starts
  // meanwhile.
  enum class Stop : std::uint8_t { kFrozen, kPaused };
  void replace(Stop stop, Duration time);

 private:
  ExtenderProcess* find(int number);
  void start();
  void start_later();
  void on_lease_lost(int number);

  Executor& world_;
  kube::MemoryApiServer& server_;
  const Contract& contract_;
  FaultQueue faults_;
  std::map<int, std::unique_ptr<ExtenderProcess>> processes_;
  int started_ = 0;
  int newest_ = 0;
  int serving_ = 0;
};

}  // namespace mgpu::simulation
