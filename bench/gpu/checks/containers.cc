// CUDA in containers with the settings of the device plugin, without MPS.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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
  expect_success(findings, "CUDA runs", program);
  if (!program) return;
  findings.fact("libcuda that was loaded", program->value("library"));
  findings.fact("device name", program->value("device"));
  findings.fact("multiprocessors", number_of(*program, "multiprocessors"));
}

void try_in_root(const Trial& trial, const NodeUnderTest& node, int user, Findings& findings) {
  const Container container = container_of(trial, node, user);
  Json devices = Json::array();
  for (const auto& device : container.edits.devices) devices.push_back(device.path);
  findings.fact("devices", devices);
  findings.fact("files and folders mounted", container.edits.mounts.size());
  report_program(run_to_end(enter_command(trial, container), kProgramTimeout), findings);
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

// Edits that the device plugin gives a container on this node, and what they are.
struct KindOfEdits {
  std::string name;
  const plugin::Edits* edits;
};
std::vector<KindOfEdits> kinds_of_edits(const NodeUnderTest& node, Findings& findings) {
  std::vector<KindOfEdits> kinds = {{"the files that the device plugin finds", &node.shared}};
  findings.fact("files and hooks of NVIDIA's CDI spec",
                node.toolkit ? Json{node.toolkit->mounts.size(), node.toolkit->hooks.size()}
                             : Json("(no spec that can be used)"));
  if (node.toolkit) kinds.push_back({"the files and hooks of NVIDIA's CDI spec", &*node.toolkit});
  return kinds;
}

// CUDA in one container of runc.
void try_in_runc(const Trial& trial, Container container, const std::string& which,
                 Findings& findings) {
  container.command = {kProgramInContainer, "vector-add"};
  expect_success(findings, "CUDA runs " + which, run_in_runc(trial, container));
}

// nvidia-smi is one of the driver's files.
void try_nvidia_smi(const Trial& trial, Container container, const NodeUnderTest& node,
                    Findings& findings) {
  const auto binary = std::ranges::find_if(container.edits.mounts, [](const plugin::Mount& mount) {
    return mount.container_path.ends_with("/nvidia-smi");
  });
  if (binary == container.edits.mounts.end()) {
    return findings.expect("nvidia-smi lists the card in a container", false,
                           "nvidia-smi is not among the files that containers get");
  }
  container.command = {binary->container_path, "-L"};
  const auto program = run_in_runc(trial, container);
  const std::string text = program ? program->text() : program.error().message;
  findings.fact("nvidia-smi -L in a container", text);
  findings.expect("nvidia-smi lists the card in a container",
                  text.find(node.card.uuid.str()) != std::string::npos, text);
}

}  // namespace

Result<RunningProgram> run_in_runc(const Trial& trial, const Container& container) {
  const auto command = runc_command(trial, container);
  if (!command) return command.error();
  auto program = run_to_end(*command, kProgramTimeout);
  remove_runc_container(trial);
  return program;
}

// Without arguments the test program prints its usage and ends with 2.
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

Result<void> check_container_root(const Trial& trial, const NodeUnderTest& node,
                                  Findings& findings) {
  try_in_root(trial, node, 0, findings);
  try_without_uvm(trial, container_of(trial, node, 0), findings);
  return {};
}

Result<void> check_container_user(const Trial& trial, const NodeUnderTest& node,
                                  Findings& findings) {
  try_in_root(trial, node, kOtherUser, findings);
  return {};
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
  const std::pair<std::string, Share> shares[] = {{"the whole card", whole_card(*node)},
                                                  {"a share", share_of(30, 1'024)}};
  for (const KindOfEdits& kind : kinds_of_edits(*node, findings)) {
    for (const auto& [share_name, share] : shares) {
      for (const int user : {0, kOtherUser}) {
        const Container container{.edits = edits_of(trial, *node, share, *kind.edits),
                                  .user = user,
                                  .more_mounts = {},
                                  .command = {}};
        const std::string which =
            fmt::format("as user {} with {} and {}", user, share_name, kind.name);
        try_in_runc(trial, container, which, findings);
      }
    }
  }
  try_nvidia_smi(trial, container_of(trial, *node, 0), *node, findings);
  return {};
}

}  // namespace mgpu::gpu_trial
