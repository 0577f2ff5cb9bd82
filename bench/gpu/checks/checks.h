// The questions of the trial, one function each; all.cc lists them in the order in which they run.
// What is a fact and what is an expectation: an expectation is what this project promises its
// users, or what its code relies on.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/node.h"
#include "bench/gpu/trial.h"
#include "common/result.h"

namespace mgpu::gpu_trial {

// --- NVML and the driver's files -----------------------------------------------------------------

Result<void> check_device_files(const Trial& trial, Findings& findings);
Result<void> check_nvml_fields(const Trial& trial, Findings& findings);
Result<void> check_process_lists(const Trial& trial, Findings& findings);
Result<void> check_memory(const Trial& trial, Findings& findings);
Result<void> check_driver_libraries(const Trial& trial, Findings& findings);

// --- containers ----------------------------------------------------------------------------------

Result<void> check_container_root(const Trial& trial, Findings& findings);
Result<void> check_container_user(const Trial& trial, Findings& findings);
Result<void> check_container_runc(const Trial& trial, Findings& findings);

// --- MPS -----------------------------------------------------------------------------------------

Result<void> check_mps_start(const Trial& trial, Findings& findings);
Result<void> check_mps_context(const Trial& trial, Findings& findings);
Result<void> check_mps_memory(const Trial& trial, Findings& findings);
Result<void> check_mps_shares_alone(const Trial& trial, Findings& findings);
Result<void> check_mps_shares_together(const Trial& trial, Findings& findings);
Result<void> check_mps_two_processes(const Trial& trial, Findings& findings);
Result<void> check_mps_bypass(const Trial& trial, Findings& findings);
Result<void> check_mps_container(const Trial& trial, Findings& findings);
Result<void> check_mps_control(const Trial& trial, Findings& findings);
Result<void> check_mps_kill_clients(const Trial& trial, Findings& findings);
Result<void> check_mps_restart(const Trial& trial, Findings& findings);
Result<void> check_mps_many_clients(const Trial& trial, Findings& findings);

// --- libcuda -------------------------------------------------------------------------------------

Result<void> check_symbols(const Trial& trial, Findings& findings);

// --- what several of them need -------------------------------------------------------------------

// A context takes a second where the card has to be started for it.
inline constexpr std::chrono::milliseconds kProgramTimeout{45'000};

// A program that has printed ready=1. Errors: it did not; its complaint.
Result<RunningProgram> start_and_wait(const Command& command);
// The share of a container that has the whole card.
Share whole_card(const NodeUnderTest& node);
Share share_of(int percent, std::int64_t mib);
// A number of a program that has ended, or null where it printed none.
Json number_of(const RunningProgram& program, const std::string& name);

}  // namespace mgpu::gpu_trial
