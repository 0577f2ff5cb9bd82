// The library in the place of libcuda.so.1, in containers with the mounts of the device plugin.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/container.h"
#include "plugin/containers/share_library.h"
#include "plugin/containers/share_pages.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::int64_t kShareLimitMiB = 4'096;
constexpr std::int64_t kFirstHoldsMiB = 2'000;
constexpr MiB kContext{528};

// Mounts of this process end with it.
Result<void> have_own_mounts() {
  if (::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
    return {};
  }
  return error(fmt::format("cannot have mounts of its own: {}", std::strerror(errno)));
}

// As a container runtime applies the edits of a CDI device, which follow those of its spec.
void replace_mounts(std::vector<plugin::Mount> by, std::vector<plugin::Mount>& mounts) {
  for (plugin::Mount& mount : by) {
    std::erase_if(mounts, [&](const plugin::Mount& one) {
      return one.container_path == mount.container_path;
    });
    mounts.push_back(std::move(mount));
  }
}

class SharedCard {
 public:
  SharedCard(const Trial& trial, const NodeUnderTest& node)
      : trial_(trial), node_(node), pages_(trial.scratch + "/pages", kContext) {
    record_.id = plugin::AllocationId("trial");
    record_.cards = {{CardIndex(0), node.card.uuid, share_of(30, kShareLimitMiB)}};
  }
  ~SharedCard() { pages_.remove(record_.id); }
  SharedCard(const SharedCard&) = delete;
  SharedCard& operator=(const SharedCard&) = delete;
  SharedCard(SharedCard&&) = delete;
  SharedCard& operator=(SharedCard&&) = delete;

  Result<void> prepare() const {
    std::filesystem::create_directory(empty());
    return pages_.prepare(record_, false);
  }
  Result<Container> container(const plugin::Edits& shared, int user) const {
    const plugin::ShareLibrary library{.cuda = trial_.programs() + "/libmgpu-cuda.so",
                                       .nvml = trial_.programs() + "/libmgpu-nvml.so",
                                       .empty = empty(),
                                       .pages = trial_.scratch + "/pages"};
    auto mounts = plugin::share_mounts(library, record_, shared);
    if (!mounts) return mounts.error();
    for (plugin::Mount& mount : *mounts) {
      const bool of_node = mount.container_path.ends_with("-driver.so");
      if (of_node) mount.host_path = path_on_node(trial_, mount.host_path);
    }
    Container container{.edits = edits_of(trial_, node_, share_of(30, kShareLimitMiB), shared),
                        .user = user};
    replace_mounts(*std::move(mounts), container.edits.mounts);
    return container;
  }
  // What programs have reserved that run.
  MiB reserved() const {
    const auto of_cards = pages_.reserved(record_);
    return of_cards.empty() ? MiB() : of_cards.begin()->second;
  }

 private:
  std::string empty() const { return trial_.scratch + "/empty"; }

  const Trial& trial_;
  const NodeUnderTest& node_;
  plugin::Record record_;
  const plugin::SharePages pages_;
};

Container with_command(Container container, std::vector<std::string> command) {
  container.command = std::move(command);
  return container;
}

const std::vector<std::string> kLargest = {kProgramInContainer, "largest",
                                           std::to_string(2 * kShareLimitMiB)};

void try_one_program(const Trial& trial, const Container& container, const std::string& which,
                     Findings& findings) {
  const auto program = run_container(trial, with_command(container, kLargest));
  expect_limit(findings, "the share holds " + which, kShareLimitMiB - kContext.value(), program);
  if (!program) return;
  report_allocations(findings, *program, " " + which);
  findings.expect("a program sees the share as its card " + which,
                  program->number("total_mib") == kShareLimitMiB,
                  program->value("total_mib") + " MiB");
}

void try_two_programs(const Trial& trial, const Container& container, Findings& findings) {
  const auto first = start_container(
      trial,
      with_command(container, {kProgramInContainer, "hold", std::to_string(kFirstHoldsMiB)}));
  expect_success(findings, "a program holds a part of the share", first);
  if (!first) return;
  const auto second =
      run_to_end(in_container(trial, with_command(container, kLargest)), kProgramTimeout);
  expect_limit(findings, "the share holds for two programs together",
               kShareLimitMiB - kFirstHoldsMiB - 2 * kContext.value(), second);
  if (second) report_allocations(findings, *second, " beside a program");
}

void try_nvidia_smi(const Trial& trial, const Container& container, Findings& findings) {
  const auto program = run_container(
      trial, with_command(container, {"/usr/bin/nvidia-smi", "--query-gpu=memory.total,memory.used",
                                      "--format=csv,noheader,nounits"}));
  const std::string text = program ? program->text() : program.error().message;
  findings.fact("memory.total and memory.used of nvidia-smi in a container", text);
  findings.expect("nvidia-smi shows the share",
                  text.starts_with(std::to_string(kShareLimitMiB) + ","), text);
}

// The rate of a program that only computes, with the library and without it.
Result<double> rate_in(const Trial& trial, const Container& container) {
  auto program = start_container(
      trial, with_command(container,
                          {kProgramInContainer, "measure", std::to_string(trial.measure.count())}));
  if (!program) return program.error();
  program->send_line();
  return rate_of(*program);
}

void compare_rates(const Trial& trial, const NodeUnderTest& node, const Container& container,
                   Findings& findings) {
  const Container without{.edits = edits_of(trial, node, share_of(30, kShareLimitMiB))};
  const auto limited = rate_in(trial, container);
  const auto free = rate_in(trial, without);
  expect_success(findings, "a program computes with the library", limited);
  if (limited && free) {
    findings.fact("throughput with the library", rounded(*limited / *free), "of that without it");
  }
}

}  // namespace

Result<void> check_library(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  if (!has_containers(trial, findings)) return {};
  if (!plugin::can_have_pages(node.card.uuid)) {
    findings.skip("the UUID of the card is not \"GPU-\" and 32 digits");
    return {};
  }
  if (auto own = have_own_mounts(); !own) return own;
  const SharedCard card(trial, node);
  if (auto prepared = card.prepare(); !prepared) return prepared;
  const auto container = card.container(node.shared, 0);
  if (!container) return container.error();
  try_one_program(trial, *container, "as user 0", findings);
  Container other = *container;
  other.user = kOtherUser;
  try_one_program(trial, other, fmt::format("as user {}", kOtherUser), findings);
  if (node.toolkit) {
    const auto toolkit = card.container(*node.toolkit, 0);
    if (!toolkit) return toolkit.error();
    try_one_program(trial, *toolkit, "with the files and hooks of NVIDIA's CDI spec", findings);
  }
  try_two_programs(trial, *container, findings);
  try_nvidia_smi(trial, *container, findings);
  compare_rates(trial, node, *container, findings);
  findings.expect("nothing is reserved when all programs have ended", card.reserved().zero(),
                  fmt::format("{} MiB", card.reserved().value()));
  return {};
}

}  // namespace mgpu::gpu_trial
