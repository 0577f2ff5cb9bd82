// MPS on this node where it limits shares: the daemons of the cards (mps.h), the hook that sees
// that they answer, and the compute mode of the cards (ExclusiveCards). Isolation owns it. One
// thread calls use() and follow_modes(); the rest is for any thread, but hook() for the first
// one and for containers that start, which none does during use() (Isolation::switch_to).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "plugin/agent/exclusive_cards.h"
#include "plugin/agent/isolation_options.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/containers/container_edits.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class MpsLimits {
 public:
  // Both outlive it.
  MpsLimits(const IsolationOptions& options, const Records& records)
      : options_(options), records_(records) {}

  // Whether MPS limits containers from now on. Before the first call it does not.
  void use(bool used);
  // Sets the healthy cards.
  void set_cards(const std::vector<CardUuid>& cards);
  // Corrects the compute modes of cards, again and again. `found`: as last read. Blocks while the
  // driver does.
  void follow_modes(const std::vector<FoundCard>& found, bool released);
  // Restores the MPS namespaces of running containers that a daemon has lost, and removes those of
  // containers that have ended. Blocks while a daemon does not respond.
  void keep_shares() const;

  // Null if MPS is not used.
  const Mps* daemons() const;
  // Null also if the hook cannot be installed.
  const LimitHook* hook() const;
  // Empty if MPS is not used.
  std::vector<MpsState> states() const;
  // Why this card must not be offered. One sentence; empty: there is no reason. Blocks while the
  // driver does.
  std::string problem_of(const FoundCard& card);
  ExclusiveCards& exclusive() { return exclusive_; }

 private:
  const IsolationOptions& options_;
  const Records& records_;
  ComputeModes modes_{options_.nvml, options_.mps.run_dir};
  ExclusiveCards exclusive_{modes_, records_};
  LimitHook hook_;

  mutable Mutex mutex_;
  bool used_ MGPU_GUARDED_BY(mutex_) = false;
  std::vector<CardUuid> cards_ MGPU_GUARDED_BY(mutex_);
  // Once it was made it stays, since others may still use the pointer.
  std::unique_ptr<Mps> mps_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
