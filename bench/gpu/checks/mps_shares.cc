// Throughput of MPS clients with a share of the multiprocessors.
#include <fmt/format.h>

#include <array>
#include <string>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::array kPercentages = {10, 25, 30, 50, 75, 80};
constexpr std::int64_t kShareMiB = 2'048;

Result<RunningProgram> start_client(const Trial& trial, const CardWithMps& card, int percent) {
  auto client = start_and_wait(card.mps->client(
      share_of(percent, kShareMiB), {"measure", std::to_string(trial.measure.count())}));
  if (client && client->value("mps") == "0") return error("it ran outside of MPS");
  return client;
}

// Measures one client that runs alone.
Result<double> rate_alone(const Trial& trial, const CardWithMps& card, int percent,
                          Findings& findings) {
  auto client = start_client(trial, card, percent);
  if (!client) return error(fmt::format("at {} %: {}", percent, client.error().message));
  client->send_line();
  const auto rate = rate_of(*client);
  if (!rate) return error(fmt::format("at {} %: {}", percent, rate.error().message));
  findings.fact(fmt::format("multiprocessors at {} %", percent),
                number_of(*client, "multiprocessors"));
  return rate;
}

}  // namespace

Result<void> check_mps_shares_alone(const Trial& trial, CardWithMps& card, Findings& findings) {
  const auto whole = rate_alone(trial, card, 100, findings);
  if (!whole) return whole.error();
  for (const int percent : kPercentages) {
    const auto rate = rate_alone(trial, card, percent, findings);
    if (!rate) return rate.error();
    const double part = *rate / *whole;
    findings.fact(fmt::format("throughput of {} % alone", percent), rounded(part), "of the card");
    findings.expect(fmt::format("{} % is a limit", percent), is_within_share(part, percent),
                    fmt::format("the program had {:.1f} % of the card", part * 100));
  }
  return {};
}

}  // namespace mgpu::gpu_trial
