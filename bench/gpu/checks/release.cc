// What the device plugin keeps open of a card, and a reset of the card.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include "bench/gpu/checks/checks.h"
#include "common/base/files.h"

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;

// A reset takes seconds; large cards with NVLink take longer.
constexpr std::chrono::milliseconds kResetTimeout{60'000};
constexpr std::chrono::milliseconds kCloseTimeout{5'000};

// The device files of NVIDIA that this process has open, sorted.
Json open_device_files(const Trial& trial) {
  const std::string begin = path_on_node(trial, "/dev/nvidia");
  std::vector<std::string> names;
  for (const std::string& file : names_in("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = fs::read_symlink("/proc/self/fd/" + file, closed);
    if (target.starts_with(begin)) names.push_back(fs::path(target).filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The outcome of a reset of the card. Error: it was refused.
Result<RunningProgram> reset(const Trial& trial, const NodeUnderTest& node) {
  return run_to_end({.path = find_program(trial.nvidia_smi),
                     .arguments = {"--gpu-reset", "-i", node.card.uuid.str()}},
                    kResetTimeout);
}

void expect_reset(const Trial& trial, const NodeUnderTest& node, plugin::CardSource& source,
                  Findings& findings) {
  expect_success(findings, "the card can be reset after the device plugin has released the driver",
                 reset(trial, node));
  const auto read = source.read();
  const auto found = [&](const plugin::FoundCard& card) {
    return card.uuid == node.card.uuid && card.health == kHealthy;
  };
  findings.expect("the device plugin finds the card again after the reset",
                  read && std::ranges::any_of(read->cards, found),
                  read ? "the card is missing or not healthy" : read.error().message);
  source.release();
}

}  // namespace

Result<void> check_release(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  // What has read the node closes its library on a thread of its own.
  const auto deadline = std::chrono::steady_clock::now() + kCloseTimeout;
  while (!open_device_files(trial).empty() && std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 10);
  }
  const auto source = plugin::nvml_source(nvml_options(trial));
  if (const auto read = source->read(); !read) return read.error();
  findings.fact("device files that are open while NVML is", open_device_files(trial));
  if (trial.reset) {
    const auto done = reset(trial, node);
    findings.fact("reset while NVML is open", done ? "succeeds" : done.error().message);
  }
  source->release();
  const Json left = open_device_files(trial);
  findings.fact("device files that are open after the release", left);
  findings.expect("no device file is open after the release", left.empty(),
                  "a reset of the card or an upgrade of the driver is refused: " + left.dump());
  if (trial.reset) {
    expect_reset(trial, node, *source, findings);
  } else {
    findings.fact("reset", "(not tried: only --reset resets the card)");
  }
  return {};
}

}  // namespace mgpu::gpu_trial
