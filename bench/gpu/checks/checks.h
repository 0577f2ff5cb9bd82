// The checks of the trial, one function for each; all.cc lists them in the order in which they run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/node.h"
#include "bench/gpu/nvidia_smi.h"
#include "bench/gpu/nvml_more.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"
#include "plugin/cards/nvml/memory_limits.h"

namespace mgpu::gpu_trial {

// A check begins by itself, with the card of the trial, or with an MPS daemon for that card. A
// check of MPS is skipped if this machine has none.
using CheckOfTrial = Result<void>(const Trial& trial, Findings& findings);
using CheckOfNode = Result<void>(const Trial& trial, const NodeUnderTest& node, Findings& findings);
using CheckOfMps = Result<void>(const Trial& trial, CardWithMps& card, Findings& findings);

CheckOfTrial check_device_files, check_container, check_mps_exclusive, check_mps_restart,
    check_mps_end_client;
CheckOfNode check_nvml_fields, check_process_lists, check_utilization, check_memory,
    check_driver_libraries, check_release, check_library, check_driver_limits,
    check_driver_limits_hook;
CheckOfMps check_mps_shares_alone, check_mps_start, check_mps_context, check_mps_memory,
    check_mps_two_processes, check_mps_container, check_mps_pipe, check_mps_client_folder,
    check_mps_many_clients, check_mps_kill_clients;

// --- common functions ----------------------------------------------------------------------------

inline constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;
// An unprivileged user, which images often call "nobody".
inline constexpr int kOtherUser = 65'534;

// Returns false, and skips the check, if this machine has no MPS.
bool has_mps(const Trial& trial, Findings& findings);
// Returns false, and skips the check, if this machine cannot run containers.
bool has_containers(const Trial& trial, Findings& findings);

// Ends the input of all programs, and waits until they have ended.
void end_all(std::vector<RunningProgram>& programs);
// Expects that a program ran as a client of MPS. Without a daemon CUDA would run outside of MPS and
// without limits.
void expect_client(Findings& findings, std::string_view what,
                   const Result<RunningProgram>& program);
template <class Value>
void expect_success(Findings& findings, std::string_view what, const Result<Value>& result) {
  findings.expect(what, result.has_value(), result.has_value() ? "" : result.error().message);
}

// Whether the daemon lists a process of the node as a client of one of its servers.
bool lists_client(const CardWithMps& card, pid_t pid);

// The memory in MiB that a program of the kind "largest" could allocate, in one piece or in small
// pieces.
double most_allocated(const RunningProgram& program);
// Facts about what it could allocate and what it saw. `when` ends their names.
void report_allocations(Findings& findings, const RunningProgram& program, const std::string& when);
// Expects that such a program could allocate something, and not more than its limit.
void expect_limit(Findings& findings, std::string_view what, std::int64_t mib,
                  const Result<RunningProgram>& program);

// Returns false if the driver cannot limit cgroups on this machine, and skips the check. A driver
// that has the functions and does not set a limit fails an expectation.
bool has_driver_limits(plugin::MemoryLimits& limits, const CardUuid& card, Findings& findings);

// The share of a container that has the whole card.
Share whole_card(const NodeUnderTest& node);
Share share_of(int percent, std::int64_t mib);
// Whether a program with this measured part of the card, 0 to 1, is within its percentage. There is
// a tolerance, because shares are rounded to whole multiprocessors and clocks change.
bool is_within_share(double part, int percent);

// The memory of each process in MiB by its process ID, as the device plugin lists them.
Json listed_processes(const Trial& trial, const CardUuid& card);
Json processes_json(const SmiReport& report, const CardUuid& card);
// A number that a program has printed, or null.
Json number_of(const RunningProgram& program, const std::string& name);
double rounded(double value);  // to a thousandth
// The rate that the program prints next. Error: it prints none.
Result<double> rate_of(RunningProgram& program);
}  // namespace mgpu::gpu_trial
