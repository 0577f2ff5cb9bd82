#include <array>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::seconds;

// check_device_files is the first, since those after it run CUDA programs, which load a kernel
// module that it asks about.
constexpr std::array kChecks = {
    Check{"device-files", "Which device files exist before a CUDA program has run, and after?",
          seconds(60), check_device_files},
    Check{"nvml-fields", "Does our reading of NVML agree with nvidia-smi in every field?",
          seconds(60), check_nvml_fields},
    Check{"process-lists", "Do NVML's process lists name the programs that run, and their memory?",
          seconds(60), check_process_lists},
    Check{"memory", "How much of a card is reserved, and how much does one context take?",
          seconds(60), check_memory},
    Check{"driver-libraries", "Does our discovery find the libraries that the driver consists of?",
          seconds(30), check_driver_libraries},
    Check{"container-root",
          "Does CUDA run in an empty root with our devices and libraries, as root?", seconds(60),
          check_container_root},
    Check{"container-user", "And as another user?", seconds(60), check_container_user},
    Check{"container-runc", "And in a container of runc?", seconds(60), check_container_runc},
    Check{"mps-start", "Does an MPS daemon as we start it serve a program, and end when asked?",
          seconds(90), check_mps_start},
    Check{"mps-context",
          "How much memory do the MPS server and one client take, and who lists them?", seconds(60),
          check_mps_context},
    Check{"mps-memory", "Does a memory limit hold, and how much of it can a program allocate?",
          seconds(90), check_mps_memory},
    Check{"mps-shares-alone", "How fast is a program with a share of the multiprocessors, alone?",
          seconds(90), check_mps_shares_alone},
    Check{"mps-shares-together", "And beside another program that has the rest?", seconds(120),
          check_mps_shares_together},
    Check{"mps-two-processes", "Does the limit count for each process, or for both together?",
          seconds(60), check_mps_two_processes},
    Check{"mps-bypass", "Is a program that unsets the variables of MPS limited?", seconds(60),
          check_mps_bypass},
    Check{"mps-container",
          "Does a container work as a client, with its pipe directory read-only too?", seconds(90),
          check_mps_container},
    Check{"mps-control", "Can a container command the daemon through its pipe directory?",
          seconds(60), check_mps_control},
    Check{"mps-kill-clients",
          "Does a program survive neighbours that are killed while they compute?", seconds(150),
          check_mps_kill_clients},
    Check{"mps-restart", "What happens when the daemon is killed, and started again?", seconds(90),
          check_mps_restart},
    Check{"mps-many-clients", "How many clients does a card take?", seconds(120),
          check_mps_many_clients},
    Check{"symbols", "Does cuGetProcAddress answer with the addresses of dlsym?", seconds(30),
          check_symbols},
};

}  // namespace

std::span<const Check> all_checks() {
  return kChecks;
}

Result<RunningProgram> start_and_wait(const Command& command) {
  auto program = RunningProgram::start(command);
  if (!program) return program.error();
  const auto ready = program->next("ready", kProgramTimeout);
  if (!ready) return ready.error();
  return program;
}

Share whole_card(const NodeUnderTest& node) {
  return {kWholeCard, node.card.memory};
}

Share share_of(int percent, std::int64_t mib) {
  return {Percent(percent), MiB(mib)};
}

Json number_of(const RunningProgram& program, const std::string& name) {
  const auto number = program.number(name);
  if (!number) return {};
  const auto whole = static_cast<std::int64_t>(*number);
  return static_cast<double>(whole) == *number ? Json(whole) : Json(*number);
}

}  // namespace mgpu::gpu_trial
