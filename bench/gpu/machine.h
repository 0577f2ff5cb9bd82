// The machine of a trial: what it is, and that its settings are at the end what they were at the
// start.
#pragma once

#include "bench/gpu/check.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

// Facts of the card, the driver and the system. Errors: no card can be tried here, and why.
Check inspect_machine();
// Names below /dev that begin with "nvidia".
Json device_files(const Trial& trial);
// Settings of the card, as numbers; those that the driver does not tell are absent.
Settings settings_in(const std::vector<Json>& findings);
// The UUID of the card that was found; empty: none.
std::string card_in(const std::vector<Json>& findings);
// With trial.exclusive: puts the compute mode of trial.card back where it is not
// trial.settings.compute_mode, and expects the others to be as they were.
Check put_settings_back();

}  // namespace mgpu::gpu_trial
