// CUDA in containers with the settings of the device plugin, without MPS.
#include <algorithm>
#include <string>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/runc.h"

namespace mgpu::gpu_trial {
namespace {

Container container_of(const Trial& trial, const NodeUnderTest& node, int user) {
  return {.edits = edits_of(trial, node, share_of(30, 1'024)),
          .user = user,
          .more_mounts = {},
          .command = {kProgramInContainer, "vector-add"}};
}

void report_program(const Result<RunningProgram>& program, Findings& findings) {
  findings.expect("CUDA runs", program.has_value(),
                  program.has_value() ? "" : program.error().message);
  if (!program) return;
  findings.fact("libcuda that was loaded", program->value("library"));
  findings.fact("device name", program->value("device"));
  findings.fact("multiprocessors", number_of(*program, "multiprocessors"));
}

Result<void> try_in_root(const Trial& trial, const NodeUnderTest& node, int user,
                         Findings& findings) {
  const Container container = container_of(trial, node, user);
  Json devices = Json::array();
  for (const auto& device : container.edits.devices) devices.push_back(device.path);
  findings.fact("devices", devices);
  findings.fact("files and folders mounted", container.edits.mounts.size());
  report_program(run_to_end(enter_command(trial, container), kProgramTimeout), findings);
  return {};
}

// Reports the error of a container without /dev/nvidia-uvm. This device may be missing until a CUDA
// program has run on the node.
void try_without_uvm(const Trial& trial, Container container, Findings& findings) {
  std::erase_if(container.edits.devices, [](const plugin::DeviceNode& device) {
    return device.path.starts_with("/dev/nvidia-uvm");
  });
  const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  findings.fact("without /dev/nvidia-uvm", program ? "runs" : program.error().message);
}

// Reports the output of nvidia-smi in a container, to which its binary is added.
void try_nvidia_smi(const Trial& trial, Container container, Findings& findings) {
  const std::string binary = find_program(trial.nvidia_smi);
  if (binary.empty()) return;
  container.more_mounts = {{binary, "/usr/bin/nvidia-smi", true}};
  container.command = {"/usr/bin/nvidia-smi", "-L"};
  const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  findings.fact("nvidia-smi -L, where its binary is mounted",
                program ? program->text() : program.error().message);
}

// The reason why runc cannot run containers here; empty if it can. Without arguments the test
// program prints its usage and ends with 2.
std::string problem_of_runc(const Trial& trial) {
  constexpr int kUsage = 2;
  const auto command = runc_command(
      trial, {.edits = {}, .user = 0, .more_mounts = {}, .command = {kProgramInContainer}});
  if (!command) return command.error().message;
  auto program = RunningProgram::start(*command);
  if (!program) return program.error().message;
  const auto code = program->finish(kProgramTimeout);
  remove_runc_container(trial);
  if (!code) return code.error().message;
  return *code == kUsage ? "" : program->failure();
}

}  // namespace

Result<void> check_container_root(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  if (auto tried = try_in_root(trial, *node, 0, findings); !tried) return tried;
  try_without_uvm(trial, container_of(trial, *node, 0), findings);
  try_nvidia_smi(trial, container_of(trial, *node, 0), findings);
  return {};
}

Result<void> check_container_user(const Trial& trial, Findings& findings) {
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  return try_in_root(trial, *node, kOtherUser, findings);
}

Result<void> check_container_runc(const Trial& trial, Findings& findings) {
  const auto version = runc_version(trial);
  const std::string problem = version ? problem_of_runc(trial) : version.error().message;
  if (!problem.empty()) {
    findings.skip("runc cannot run a container on this machine: " + problem);
    return {};
  }
  findings.fact("version", version->substr(0, version->find('\n')));
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  for (const int user : {0, kOtherUser}) {
    const auto command = runc_command(trial, container_of(trial, *node, user));
    if (!command) return command.error();
    const auto program = run_to_end(*command, kProgramTimeout);
    remove_runc_container(trial);
    findings.expect(user == 0 ? "CUDA runs as root" : "CUDA runs as another user",
                    program.has_value(), program.has_value() ? "" : program.error().message);
  }
  return {};
}

}  // namespace mgpu::gpu_trial
