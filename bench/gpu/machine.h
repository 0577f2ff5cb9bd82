// Describes the machine of a trial, and restores its settings at the end.
#pragma once

#include "bench/gpu/check.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

// Returns facts of the card, the driver and the system. Error: there is no card that can be tested.
Check inspect_machine();
// The names in /dev that begin with "nvidia".
Json device_files(const Trial& trial);
// The settings of the card in these findings.
Settings settings_in(const std::vector<Json>& findings);
// The UUID of the card in these findings; empty if there is none.
std::string card_in(const std::vector<Json>& findings);
// The path on the node of its device file; empty if there is none.
std::string device_file_in(const std::vector<Json>& findings);
// Checks that the settings of trial.card are trial.settings. With trial.exclusive it first restores
// the compute mode.
Check put_settings_back();

}  // namespace mgpu::gpu_trial
