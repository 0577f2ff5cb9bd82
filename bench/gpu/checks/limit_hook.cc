// The createRuntime hook of containers whose memory the driver limits, in runc.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "plugin/cards/nvml/memory_limits.h"
#include "plugin/containers/limit_server.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::int64_t kHookLimitMiB = 2'048;
constexpr std::int64_t kBeyondHookLimitMiB = 1'024;
constexpr int kHookSeconds = 15;
constexpr char kCgroupRoot[] = "/sys/fs/cgroup";

// Whether runc makes cgroups of version 2 alone. Otherwise the driver does not know them.
bool has_cgroup_v2() {
  struct statfs root {};
  return ::statfs(kCgroupRoot, &root) == 0 && root.f_type == CGROUP2_SUPER_MAGIC;
}

// The cgroup of a process as a folder of this machine, where runc makes it whatever --node-root is.
Result<std::string> cgroup_folder(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  const std::string begin = "0::";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) return kCgroupRoot + line.substr(begin.size());
  }
  return error(fmt::format("process {} has no cgroup of version 2", pid));
}

// A container with a share and with the hook of the device plugin.
Container container_with_hook(const Trial& trial, const NodeUnderTest& node,
                              const std::string& socket) {
  const auto devices = plugin::DeviceSet::of(std::vector<std::string>{plugin::core_device_id(0)});
  const plugin::AllocationId id = plugin::allocation_id(*devices, "trial");
  Container container{.edits = edits_of(trial, node, share_of(30, kHookLimitMiB)),
                      .command = {kProgramInContainer, "largest",
                                  std::to_string(kHookLimitMiB + kBeyondHookLimitMiB)}};
  container.edits.hooks.push_back({.name = "createRuntime",
                                   .path = trial.set_limits(),
                                   .arguments = {trial.set_limits(), socket, id.str()},
                                   .timeout_seconds = kHookSeconds});
  return container;
}

// The driver refuses the limit, or the device plugin does not run.
Result<void> expect_no_start(const Trial& trial, const Container& container,
                             const std::string& socket, Findings& findings) {
  std::atomic<int> asked = 0;
  const auto refuse = [&asked](const plugin::AllocationId&, std::int64_t) -> Result<void> {
    ++asked;
    return error("the trial refuses it");
  };
  const auto server = plugin::LimitServer::start(socket, refuse);
  if (!server) return server.error();
  const auto program = run_container(trial, container);
  findings.expect("a container whose limit cannot be set does not start", !program && asked > 0,
                  program ? "its program ran"
                          : "the hook did not reach the device plugin: " + program.error().message);
  return {};
}

Result<void> expect_limited(const Trial& trial, const Container& container,
                            const std::string& socket, const CardUuid& card,
                            plugin::MemoryLimits& limits, Findings& findings) {
  const auto set = [&](const plugin::AllocationId&, std::int64_t pid) -> Result<void> {
    const auto folder = cgroup_folder(pid);
    if (!folder) return folder.error();
    return limits.set(*folder, {{card, MiB(kHookLimitMiB)}});
  };
  const auto server = plugin::LimitServer::start(socket, set);
  if (!server) return server.error();
  const auto program = run_container(trial, container);
  expect_limit(findings, "the limit that the hook sets holds", kHookLimitMiB, program);
  if (!program) return {};
  report_allocations(findings, *program, "");
  return {};
}

}  // namespace

Result<void> check_driver_limits_hook(const Trial& trial, const NodeUnderTest& node,
                                      Findings& findings) {
  plugin::MemoryLimits limits(nvml_call_options(trial));
  if (!has_driver_limits(limits, node.card.uuid, findings)) return {};
  if (!has_containers(trial, findings)) return {};
  const std::string socket = trial.scratch + "/limits.sock";
  const Container container = container_with_hook(trial, node, socket);
  if (auto tried = expect_no_start(trial, container, socket, findings); !tried) return tried;
  if (!has_cgroup_v2()) {
    findings.fact("a container whose limit is set", "(not tried: this machine has cgroup v1)");
    return {};
  }
  return expect_limited(trial, container, socket, node.card.uuid, limits, findings);
}

}  // namespace mgpu::gpu_trial
