// Throughput of MPS clients with a share of the multiprocessors.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;

constexpr std::array kPercentages = {10, 25, 30, 50, 75, 80};
constexpr std::int64_t kMemoryMiB = 2'048;
// A share that is rounded to whole multiprocessors, measured on a card whose clocks change.
constexpr double kTolerance = 0.15;

Result<RunningProgram> start_client(const Trial& trial, const MpsOfCard& mps, int percent) {
  return start_and_wait(mps.client(share_of(percent, kMemoryMiB),
                                   {"measure", std::to_string(trial.measure.count())}));
}

Result<double> rate_of(RunningProgram& program) {
  const auto printed = program.next("rate", kProgramTimeout);
  if (!printed) return printed.error();
  const auto rate = program.number("rate");
  return rate ? Result<double>(*rate) : error("it printed no number: " + *printed);
}

// Of one client with nobody beside it.
Result<double> rate_alone(const Trial& trial, const MpsOfCard& mps, int percent,
                          Findings& findings) {
  auto client = start_client(trial, mps, percent);
  if (!client) return client.error();
  client->send_line();
  const auto rate = rate_of(*client);
  findings.fact(fmt::format("multiprocessors that {} % sees", percent),
                number_of(*client, "multiprocessors"));
  return rate;
}

double rounded(double value) {
  return static_cast<double>(static_cast<long>(value * 1'000 + 0.5)) / 1'000;
}

}  // namespace

Result<void> check_mps_shares_alone(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto mps = MpsOfCard::start(trial, *node);
  if (!mps) return mps.error();
  const auto whole = rate_alone(trial, **mps, 100, findings);
  if (!whole) return error("at 100 %: " + whole.error().message);
  for (const int percent : kPercentages) {
    const auto rate = rate_alone(trial, **mps, percent, findings);
    if (!rate) return error(fmt::format("at {} %: {}", percent, rate.error().message));
    const double share = *rate / *whole;
    findings.fact(fmt::format("throughput of {} % alone", percent), rounded(share), "of the card");
    findings.expect(fmt::format("{} % is a limit", percent),
                    share <= percent / 100.0 * (1 + kTolerance) + 0.02,
                    fmt::format("the program had {:.1f} % of the card", share * 100));
  }
  return {};
}

Result<void> check_mps_shares_together(const Trial& trial, Findings& findings) {
  const auto node = look_at_node(trial);
  if (!node) return node.error();
  const auto mps = MpsOfCard::start(trial, *node);
  if (!mps) return mps.error();
  const auto whole = rate_alone(trial, **mps, 100, findings);
  if (!whole) return error("at 100 %: " + whole.error().message);
  for (const int percent : kPercentages) {
    auto first = start_client(trial, **mps, percent);
    auto second = start_client(trial, **mps, 100 - percent);
    if (!first || !second) {
      return error(fmt::format("{} % beside {} %: {}", percent, 100 - percent,
                               (first ? second : first).error().message));
    }
    // Each measures the same time, and begins within a millisecond of the other.
    first->send_line();
    second->send_line();
    const auto rate = rate_of(*first);
    const auto other = rate_of(*second);
    if (!rate || !other) return rate ? other.error() : rate.error();
    findings.fact(fmt::format("throughput of {} % beside {} %", percent, 100 - percent),
                  Json{rounded(*rate / *whole), rounded(*other / *whole)}, "of the card");
  }
  return {};
}

}  // namespace mgpu::gpu_trial
