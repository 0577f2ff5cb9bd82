// The memory limits of cgroups that drivers of R615 and later enforce, as the device plugin sets
// them.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "plugin/cards/nvml/memory_limits.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::int64_t kCgroupLimitMiB = 2'048;
constexpr std::int64_t kBeyondCgroupLimitMiB = 1'024;

// A cgroup for the programs of this check, which exists as long as the object.
class LimitedCgroup {
 public:
  static Result<std::unique_ptr<LimitedCgroup>> make(std::string path) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
      return error(fmt::format("cannot make the cgroup {}: {}", path, std::strerror(errno)));
    return std::unique_ptr<LimitedCgroup>(new LimitedCgroup(std::move(path)));
  }
  ~LimitedCgroup() { ::rmdir(path_.c_str()); }
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;

  const std::string& path() const { return path_; }
  // The program enters the cgroup before it starts.
  Command with(Command command) const {
    constexpr char kEnter[] = "echo $$ >>\"$0\"/cgroup.procs && exec \"$@\"";
    command.arguments.insert(command.arguments.begin(), {"-c", kEnter, path_, command.path});
    command.path = "/bin/sh";
    return command;
  }

 private:
  explicit LimitedCgroup(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

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
void try_two_programs(const Trial& trial, const NodeUnderTest& node, const LimitedCgroup& cgroup,
                      Findings& findings) {
  const std::string held = std::to_string(kCgroupLimitMiB * 5 / 8);
  const auto hold = [&] {
    return start_and_wait(cgroup.with(program_on_node(trial, node, {"hold", held})));
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
  const auto cgroup =
      LimitedCgroup::make(fmt::format("{}/mgpu-gpu-limits-{}", limits.cgroup_root(), ::getpid()));
  if (!cgroup) return cgroup.error();
  const Command command = (*cgroup)->with(program_on_node(
      trial, node, {"largest", std::to_string(kCgroupLimitMiB + kBeyondCgroupLimitMiB)}));
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
