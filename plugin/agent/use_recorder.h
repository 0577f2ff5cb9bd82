// Keeps the account of use (monitor/use_account.h): adds the samples of the monitor, serves the
// account as GET /use and as metrics, and keeps it on disk, so that an upgrade of the plugin does
// not begin a new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/contract/contract.h"
#include "plugin/cards/card_source.h"
#include "plugin/containers/pods.h"
#include "plugin/monitor/held_shares.h"
#include "plugin/monitor/join.h"
#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {

class UseRecorder {
 public:
  // `metrics` and `pods` outlive it. `clock` returns the current moment.
  UseRecorder(NodeName node, Contract contract, std::string file, Metrics& metrics,
              const Pods& pods, std::function<UseMoment()> clock);

  // Continues the account in the file. If it cannot be read, the log says why, and a new account
  // begins. Call it before the first sample.
  void load();
  // Adds a sample: what join() found for `use`, of read `reads` of the inventory with `cards`, and
  // the shares of containers that wait. Writes the file each kUseSavePeriod. One thread.
  void add(const std::vector<ContainerUse>& containers, const std::vector<CardUse>& use,
           const std::vector<CardFacts>& cards, std::uint64_t reads);
  // Writes the file. A failure is logged once until the next success.
  void save();
  // The answer to GET /use. Any thread.
  std::string json() const;

 private:
  const NodeName node_;
  const Contract contract_;
  const std::string file_;
  Metrics& metrics_;
  const Pods& pods_;
  const std::function<UseMoment()> clock_;
  // One thread uses these.
  std::optional<std::uint64_t> reads_;  // of the last sample
  std::chrono::milliseconds saved_at_;
  bool save_failed_ = false;

  mutable Mutex mutex_;
  UseAccount account_ MGPU_GUARDED_BY(mutex_);
};

// The time since the start of the machine without the time that it was suspended, and the time of
// day.
UseMoment use_moment_now();

}  // namespace mgpu::plugin
