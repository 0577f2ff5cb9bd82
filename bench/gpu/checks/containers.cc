// CUDA in containers that have what our node code gives them, without MPS.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/runc.h"

namespace mgpu::gpu_trial {
namespace {

constexpr char kProgramInContainer[] = "/usr/bin/mgpu-cuda-program";
// A user that owns nothing; images often name it "nobody".
constexpr int kOtherUser = 65'534;

Container container_of(const Trial& trial, const NodeUnderTest& node) {
  return {.edits = edits_of(trial, node, share_of(30, 1'024)),
          .user = 0,
          .more_mounts = {},
          .words = {kProgramInContainer, "vector-add"}};
}

void report_program(const Result<RunningProgram>& program, Findings& findings) {
  findings.expect("CUDA runs", program.has_value(),
                  program.has_value() ? "" : program.error().message);
  if (!program) return;
  findings.fact("library", program->value("library"));
  findings.fact("device", program->value("device"));
  findings.fact("multiprocessors", number_of(*program, "multiprocessors"));
}

void report_edits(const Container& container, Findings& findings) {
  Json devices = Json::array();
  for (const auto& device : container.edits.devices) devices.push_back(device.path);
  findings.fact("devices", devices);
  findings.fact("mounts", container.edits.mounts.size());
}

Result<void> try_in_root(const Trial& trial, int user, Findings& findings) {
  if (::geteuid() != 0) {
    findings.skip("needs root");
    return {};
  }
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  Container container = container_of(trial, *node);
  container.user = user;
  report_edits(container, findings);
  report_program(run_to_end(enter_command(trial, container), kProgramTimeout), findings);
  return {};
}

// Where a program of this name is in $PATH, or what it is itself if it is a path; empty: nowhere.
std::string find_program(const std::string& name) {
  std::error_code failed;
  if (name.find('/') != std::string::npos) return std::filesystem::exists(name, failed) ? name : "";
  const char* const path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "";
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string found = folders.substr(0, end) + "/" + name;
    if (::access(found.c_str(), X_OK) == 0) return found;
    folders.erase(0, end + 1);
  }
  return "";
}

// nvidia-smi is not among what we give; with it, it should show the one card.
void try_nvidia_smi(const Trial& trial, Container container, Findings& findings) {
  const std::string binary = find_program(trial.nvidia_smi);
  if (binary.empty()) return;
  container.more_mounts = {{binary, "/usr/bin/nvidia-smi", true}};
  container.words = {"/usr/bin/nvidia-smi", "-L"};
  const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
  findings.fact("nvidia-smi -L, where its binary is mounted",
                program ? "runs" : program.error().message);
}

}  // namespace

Result<void> check_container_root(const Trial& trial, Findings& findings) {
  if (auto tried = try_in_root(trial, 0, findings); !tried || ::geteuid() != 0) return tried;
  const auto node = look_at_node(trial);
  if (node) try_nvidia_smi(trial, container_of(trial, *node), findings);
  return {};
}

Result<void> check_container_user(const Trial& trial, Findings& findings) {
  return try_in_root(trial, kOtherUser, findings);
}

Result<void> check_container_runc(const Trial& trial, Findings& findings) {
  if (::geteuid() != 0) {
    findings.skip("needs root");
    return {};
  }
  const auto version = runc_version(trial);
  if (!version) {
    findings.skip("runc does not run here: " + version.error().message);
    return {};
  }
  findings.fact("runc", version->substr(0, version->find('\n')));
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  Container container = container_of(trial, *node);
  for (const int user : {0, kOtherUser}) {
    container.user = user;
    const auto command = runc_command(trial, container);
    if (!command) return command.error();
    const auto program = run_to_end(*command, kProgramTimeout);
    forget_runc_container(trial);
    findings.expect(user == 0 ? "CUDA runs as root" : "CUDA runs as another user",
                    program.has_value(), program.has_value() ? "" : program.error().message);
  }
  return {};
}

}  // namespace mgpu::gpu_trial
