// Exclusive compute mode, as the device plugin sets it with --mps-exclusive.
#include <fmt/format.h>

#include <string>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/cards/mps/compute_modes.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::int64_t kExclusiveClientMiB = 2'048;

Result<RunningProgram> run_outside(const Trial& trial, const CardWithMps& card) {
  return run_to_end(program_on_node(trial, card.node, {"vector-add"}), kProgramTimeout);
}

// cudaErrorDevicesUnavailable (46), which deploy/NODE.md promises. Older drivers have no name for
// it.
bool is_device_unavailable(const std::string& failure) {
  return failure.ends_with("CUDA_ERROR_DEVICE_UNAVAILABLE") || failure.ends_with("error 46");
}

// Programs while the card is exclusive. The first client makes the daemon start its server, which
// then has the only context.
void try_programs(const Trial& trial, const CardWithMps& card, Findings& findings) {
  const auto client = [&](std::vector<std::string> arguments) {
    return card.mps->client(share_of(50, kExclusiveClientMiB), std::move(arguments));
  };
  const auto first = start_and_wait(client({"hold", "0"}));
  expect_client(findings, "a client runs while the card is exclusive", first);
  if (!first) return;
  const auto outside = run_outside(trial, card);
  const std::string what = outside ? "it computes" : outside.error().message;
  findings.fact("a program outside of MPS", what);
  findings.expect("a program outside of MPS gets no context while the card is exclusive",
                  !outside && is_device_unavailable(what), what);
  const auto second = run_to_end(client({"vector-add"}), kProgramTimeout);
  expect_client(findings, "a second client computes", second);
}

}  // namespace

Result<void> check_mps_exclusive(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  if (!trial.exclusive) {
    findings.skip("only --exclusive changes the compute mode");
    return {};
  }
  const auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  const CardUuid& uuid = (*card)->node.card.uuid;
  const auto nvml = NvmlCard::open(trial, uuid);
  if (!nvml) return nvml.error();
  const auto mode = [&] { return (*nvml)->number("nvmlDeviceGetComputeMode"); };
  plugin::ComputeModes modes(nvml_call_options(trial), trial.modes);
  const auto made = modes.make_exclusive(uuid);
  findings.expect("the device plugin makes the card exclusive",
                  made && mode() == plugin::nvml::kComputeModeExclusiveProcess,
                  made ? "it has another compute mode" : made.error().message);
  if (made) try_programs(trial, **card, findings);
  const auto restored = modes.restore(uuid);
  findings.expect("the device plugin restores the compute mode",
                  restored && mode() == trial.settings.compute_mode,
                  restored ? "it has another compute mode" : restored.error().message);
  expect_success(findings, "a program outside of MPS computes afterwards",
                 run_outside(trial, **card));
  return {};
}

}  // namespace mgpu::gpu_trial
