// Throughput of MPS clients with a share of the multiprocessors.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

constexpr std::array kPercentages = {10, 25, 30, 50, 75, 80};
constexpr std::int64_t kShareMiB = 2'048;

Result<RunningProgram> start_client(const Trial& trial, const CardWithMps& card, int percent,
                                    const std::string& program = "measure") {
  auto client = start_and_wait(card.mps->client(share_of(percent, kShareMiB),
                                                {program, std::to_string(trial.measure.count())}));
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

// The rate at which one client that runs alone copies memory, in 10^9 bytes per second.
Result<double> copy_rate(const Trial& trial, const CardWithMps& card, int percent) {
  auto client = start_client(trial, card, percent, "copy");
  if (!client) return client.error();
  client->send_line();
  return rate_of(*client);
}

// MPS limits multiprocessors and not the bandwidth of the memory, of which few multiprocessors may
// take much.
void report_bandwidth(const Trial& trial, const CardWithMps& card, Findings& findings) {
  const auto whole = copy_rate(trial, card, 100);
  findings.fact("bandwidth of a copy at 100 %",
                whole ? Json(rounded(*whole)) : Json(whole.error().message), "GB/s");
  for (const int percent : {10, 30, 50}) {
    const auto rate = copy_rate(trial, card, percent);
    findings.fact(
        fmt::format("bandwidth of a copy at {} %", percent),
        rate && whole ? Json(rounded(*rate / *whole)) : Json((rate ? whole : rate).error().message),
        "of that at 100 %");
  }
}

// Measures two clients that run at the same time.
Result<std::pair<double, double>> rates_together(const Trial& trial, const CardWithMps& card,
                                                 int percent) {
  auto first = start_client(trial, card, percent);
  if (!first) return first.error();
  auto second = start_client(trial, card, 100 - percent);
  if (!second) return second.error();
  // Both measure for the same time, and start within a millisecond.
  first->send_line();
  second->send_line();
  const auto rate = rate_of(*first);
  const auto other = rate_of(*second);
  if (!rate || !other) return rate ? other.error() : rate.error();
  return std::pair(*rate, *other);
}

}  // namespace

Result<void> check_mps_shares_alone(const Trial& trial, CardWithMps& card, Findings& findings) {
  const auto whole = rate_alone(trial, card, 100, findings);
  if (!whole) return whole.error();
  const auto nvml = NvmlCard::open(trial, card.node.card.uuid);
  if (!nvml) return nvml.error();
  report_clocks(**nvml, "at the start", findings);
  for (const int percent : kPercentages) {
    const auto rate = rate_alone(trial, card, percent, findings);
    if (!rate) return rate.error();
    const double part = *rate / *whole;
    findings.fact(fmt::format("throughput of {} % alone", percent), rounded(part), "of the card");
    findings.expect(fmt::format("{} % is a limit", percent), is_within_share(part, percent),
                    fmt::format("the program had {:.1f} % of the card", part * 100));
  }
  report_clocks(**nvml, "at the end", findings);
  report_bandwidth(trial, card, findings);
  return {};
}

Result<void> check_mps_shares_together(const Trial& trial, CardWithMps& card, Findings& findings) {
  const auto whole = rate_alone(trial, card, 100, findings);
  if (!whole) return whole.error();
  for (const int percent : kPercentages) {
    const auto rates = rates_together(trial, card, percent);
    const std::string which = fmt::format("{} % beside {} %", percent, 100 - percent);
    if (!rates) return error(which + ": " + rates.error().message);
    findings.fact("throughput of " + which,
                  Json{rounded(rates->first / *whole), rounded(rates->second / *whole)},
                  "of the card");
  }
  return {};
}

}  // namespace mgpu::gpu_trial
