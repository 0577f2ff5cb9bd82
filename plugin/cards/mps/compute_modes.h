// The compute mode of cards (nvmlDeviceSetComputeMode). With EXCLUSIVE_PROCESS only one process can
// have a context on a card. On a card of MPS that is the server, so that a program that does not
// use MPS gets cudaErrorDevicesUnavailable instead of a context without limits.
//
//   Unchanged --make_exclusive(): file written, mode set and read back--> Exclusive
//   Exclusive --restore(): earlier mode set and read back, file removed--> Unchanged
//
// The file <run_dir>/mps/<uuid>/compute-mode has the mode that the card had before. It is there as
// long as the mode may be changed, so that another process restores what one that was killed has
// left. Drivers forget the mode when they are reloaded; a mode that somebody else has set since is
// the one that is restored later, or stays if the card is to be restored.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/cards/nvml/nvml_call.h"

namespace mgpu::plugin {

// Any thread, see NvmlCalls. A card whose driver does not respond does not delay the calls for
// other cards. Calls of several processes for one card wait for each other. A call that has taken
// too long sets no mode any more, unless it is in that function of the driver already, and no card
// counts as restored before it has ended.
class ComputeModes {
 public:
  ComputeModes(NvmlCallOptions options, std::string run_dir);

  // Whether the mode of this card can be set: sets the mode that it has. Errors: one sentence why
  // not.
  Result<void> check(const CardUuid& card);
  // Returns whether the mode was another one. Errors: one sentence; the mode may be set, and is
  // restored by restore(). A card whose mode is PROHIBITED keeps it.
  Result<bool> make_exclusive(const CardUuid& card);
  // Nothing is to be done, and the driver is not used, for a card that is not changed. Errors: one
  // sentence; also if an earlier call has not ended, because it may still change the mode.
  Result<void> restore(const CardUuid& card);

  // Whether the card has a mode that is to be restored. The driver is not used.
  bool changed(const CardUuid& card) const;
  std::vector<CardUuid> all_changed() const;

 private:
  template <class Action>
  Result<void> run(const CardUuid& card, Action action);
  NvmlCalls& calls_of(const CardUuid& card);
  bool hangs(const CardUuid& card);

  const NvmlCallOptions options_;
  const std::string run_dir_;
  Mutex mutex_;
  std::map<CardUuid, NvmlCalls> calls_ MGPU_GUARDED_BY(mutex_);  // none is removed
};

}  // namespace mgpu::plugin
