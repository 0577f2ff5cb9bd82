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

Result<RunningProgram> start_client(const Trial& trial, const CardWithMps& card, int percent) {
  auto client = start_and_wait(card.mps->client(
      share_of(percent, kShareMiB), {"measure", std::to_string(trial.measure.count())}));
  if (client && client->value("mps") == "0") return error("it ran outside of MPS");
  return client;
}

Result<double> rate_of(RunningProgram& program) {
  const auto printed = program.next("rate", kProgramTimeout);
  if (!printed) return printed.error();
  const auto rate = program.number("rate");
  return rate && *rate > 0 ? Result<double>(*rate) : error("it printed no rate: " + *printed);
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

// The card with its daemon, and the throughput of a client with 100 %.
struct Measured {
  std::unique_ptr<CardWithMps> card;
  double whole = 0;
};
Result<Measured> start_and_measure(const Trial& trial, Findings& findings) {
  auto card = start_card_with_mps(trial);
  if (!card) return card.error();
  const auto whole = rate_alone(trial, **card, 100, findings);
  if (!whole) return whole.error();
  return Measured{*std::move(card), *whole};
}

}  // namespace

Result<void> check_mps_shares_alone(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto measured = start_and_measure(trial, findings);
  if (!measured) return measured.error();
  for (const int percent : kPercentages) {
    const auto rate = rate_alone(trial, *measured->card, percent, findings);
    if (!rate) return rate.error();
    const double part = *rate / measured->whole;
    findings.fact(fmt::format("throughput of {} % alone", percent), rounded(part), "of the card");
    findings.expect(fmt::format("{} % is a limit", percent), is_within_share(part, percent),
                    fmt::format("the program had {:.1f} % of the card", part * 100));
  }
  return {};
}

Result<void> check_mps_shares_together(const Trial& trial, Findings& findings) {
  if (!has_mps(trial, findings)) return {};
  const auto measured = start_and_measure(trial, findings);
  if (!measured) return measured.error();
  for (const int percent : kPercentages) {
    const auto rates = rates_together(trial, *measured->card, percent);
    const std::string which = fmt::format("{} % beside {} %", percent, 100 - percent);
    if (!rates) return error(which + ": " + rates.error().message);
    findings.fact(
        "throughput of " + which,
        Json{rounded(rates->first / measured->whole), rounded(rates->second / measured->whole)},
        "of the card");
  }
  return {};
}

}  // namespace mgpu::gpu_trial
