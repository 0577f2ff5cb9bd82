// The memory limits of cgroups that drivers of R615 and later enforce, as the device plugin sets
// them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "plugin/cards/nvml/memory_limits.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::int64_t kCgroupLimitMiB = 2'048;
constexpr std::int64_t kBeyondCgroupLimitMiB = 1'024;

// The program enters the cgroup before it starts.
Command in_cgroup(const plugin::EmptyCgroup& cgroup, Command command) {
  constexpr char kEnter[] = "echo $$ >>\"$0\"/cgroup.procs && exec \"$@\"";
  command.arguments.insert(command.arguments.begin(), {"-c", kEnter, cgroup.path(), command.path});
  command.path = "/bin/sh";
  return command;
}

// What a program in the cgroup can allocate. `limit` is 0 if there is none.
void try_to_allocate(const Command& command, std::int64_t limit, Findings& findings) {
  const auto program = run_to_end(command, kProgramTimeout);
  const std::string what = limit > 0 ? "the limit holds" : "no limit is left";
  if (!program) return findings.expect(what, false, program.error().message);
  const double most = most_allocated(*program);
  const bool held = limit > 0 ? most > 0 && most <= static_cast<double>(limit)
                              : most > static_cast<double>(kCgroupLimitMiB);
  findings.expect(what, held, fmt::format("{} MiB were allocated", most));
  report_allocations(findings, *program,
                     limit > 0 ? " with the limit" : " after the limit was removed");
}

// Two programs that hold 5/8 of the limit each.
void try_two_programs(const Trial& trial, const NodeUnderTest& node,
                      const plugin::EmptyCgroup& cgroup, Findings& findings) {
  const std::string held = std::to_string(kCgroupLimitMiB * 5 / 8);
  const auto hold = [&] {
    return start_and_wait(in_cgroup(cgroup, program_on_node(trial, node, {"hold", held})));
  };
  auto first = hold();
  if (!first) return findings.expect("the first program runs", false, first.error().message);
  auto second = hold();
  findings.expect("the limit counts for all programs of the cgroup together", !second,
                  "two programs hold more than the limit");
  if (!second) findings.fact("error of the second program", second.error().message);
}

}  // namespace

bool has_driver_limits(plugin::MemoryLimits& limits, const CardUuid& card, Findings& findings) {
  if (const auto available = limits.available(); !available) {
    findings.skip(available.error().message);
    return false;
  }
  const auto works = limits.check(card);
  if (works) return true;
  std::ifstream file(limits.cgroup_root() + "/cgroup.controllers");
  const std::vector<std::string> controllers(std::istream_iterator<std::string>(file), {});
  if (std::ranges::find(controllers, "dmem") == controllers.end()) {
    findings.skip(works.error().message);
  } else {
    findings.expect("the driver sets the limit of a cgroup", false, works.error().message);
  }
  return false;
}

Result<void> check_driver_limits(const Trial& trial, const NodeUnderTest& node,
                                 Findings& findings) {
  const CardUuid& card = node.card.uuid;
  plugin::MemoryLimits limits(nvml_call_options(trial));
  if (!has_driver_limits(limits, card, findings)) return {};
  const auto cgroup = plugin::EmptyCgroup::make(
      fmt::format("{}/mgpu-gpu-limits-{}", limits.cgroup_root(), ::getpid()));
  if (!cgroup) return cgroup.error();
  const Command command = in_cgroup(
      **cgroup,
      program_on_node(trial, node,
                      {"largest", std::to_string(kCgroupLimitMiB + kBeyondCgroupLimitMiB)}));
  const auto set = limits.set((*cgroup)->path(), {{card, MiB(kCgroupLimitMiB)}});
  expect_success(findings, "a limit can be set for a cgroup with the kernel's controllers", set);
  if (!set) return {};
  try_to_allocate(command, kCgroupLimitMiB, findings);
  try_two_programs(trial, node, **cgroup, findings);
  expect_success(findings, "the limit can be removed", limits.clear((*cgroup)->path(), {card}));
  try_to_allocate(command, 0, findings);
  return {};
}

}  // namespace mgpu::gpu_trial
