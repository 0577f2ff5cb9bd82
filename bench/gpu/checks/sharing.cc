// Programs that keep the card busy at the same time: by time slices, and as clients of MPS.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

using plugin::nvml::UtilizationSample;

constexpr std::int64_t kBusyMiB = 2'048;

// --- time slices ---------------------------------------------------------------------------------

// Programs outside of MPS. Error: one does not start.
Result<std::vector<RunningProgram>> start_programs(const Trial& trial, const NodeUnderTest& node,
                                                   int count,
                                                   const std::vector<std::string>& arguments) {
  std::vector<RunningProgram> programs;
  for (int i = 0; i < count; ++i) {
    auto program = start_and_wait(program_on_node(trial, node, arguments));
    if (!program) return program.error();
    programs.push_back(*std::move(program));
  }
  return programs;
}

// The rates of programs that compute at the same time.
Result<std::vector<double>> rates_of(const Trial& trial, const NodeUnderTest& node, int count) {
  auto programs =
      start_programs(trial, node, count, {"measure", std::to_string(trial.measure.count())});
  if (!programs) return programs.error();
  for (RunningProgram& program : *programs) program.send_line();
  std::vector<double> rates;
  for (RunningProgram& program : *programs) {
    const auto rate = rate_of(program);
    if (!rate) return rate.error();
    rates.push_back(*rate);
  }
  end_all(*programs);
  return rates;
}

// The longest time in which one of three busy programs got no kernel done.
Result<void> report_pauses(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  auto programs = start_programs(trial, node, 3, {"busy"});
  if (!programs) return programs.error();
  ::poll(nullptr, 0, static_cast<int>(trial.measure.count()));
  Json pauses = Json::array();
  for (RunningProgram& program : *programs) {
    program.read_available();
    pauses.push_back(number_of(program, "gap_ms"));
  }
  findings.fact("longest pause of each of 3 programs between its kernels", pauses, "ms");
  end_all(*programs);
  return {};
}

// --- utilization under MPS -----------------------------------------------------------------------

// The highest sample of each process, as the driver reports them, by its process ID.
class Samples {
 public:
  void read(const NvmlCard& nvml) {
    const auto get = nvml.library().functions().process_utilization;
    std::vector<UtilizationSample> samples(kSamplesMax);
    auto count = static_cast<unsigned>(samples.size());
    if (get == nullptr) return;
    if (get(nvml.device(), samples.data(), &count, newest_us_) != plugin::nvml::kOk) return;
    samples.resize(std::min<std::size_t>(count, samples.size()));
    for (const UtilizationSample& sample : samples) {
      newest_us_ = std::max<std::uint64_t>(newest_us_, sample.time_us);
      unsigned& highest = highest_[std::to_string(sample.pid)];
      highest = std::max(highest, sample.sm);
    }
  }
  const std::map<std::string, unsigned>& highest() const { return highest_; }

 private:
  static constexpr std::size_t kSamplesMax = 256;
  std::uint64_t newest_us_ = 0;
  std::map<std::string, unsigned> highest_;
};

// Which processes have the samples of two busy clients, and what the card is.
void watch_clients(const Trial& trial, const NvmlCard& nvml, Findings& findings) {
  Samples samples;
  std::optional<unsigned> card;
  const auto end = std::chrono::steady_clock::now() + 2 * trial.measure;
  while (std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, 250);
    samples.read(nvml);
    plugin::nvml::Utilization rates{};
    const auto get = nvml.library().functions().utilization;
    if (get != nullptr && get(nvml.device(), &rates) == plugin::nvml::kOk) {
      card = std::max(card.value_or(0), rates.gpu);
    }
  }
  findings.fact("utilization of the card", card ? Json(*card) : Json("(not reported)"), "percent");
  findings.fact("samples by process", samples.highest(), "percent");
}

}  // namespace

Result<void> check_slices(const Trial& trial, const NodeUnderTest& node, Findings& findings) {
  const auto alone = rates_of(trial, node, 1);
  if (!alone) return alone.error();
  for (const int count : {2, 3}) {
    const auto rates = rates_of(trial, node, count);
    if (!rates) return rates.error();
    Json parts = Json::array();
    for (const double rate : *rates) parts.push_back(rounded(rate / alone->front()));
    findings.fact(fmt::format("throughput of each of {} programs", count), parts,
                  "of one program alone");
  }
  return report_pauses(trial, node, findings);
}

Result<void> check_mps_utilization(const Trial& trial, CardWithMps& card, Findings& findings) {
  const auto nvml = NvmlCard::open(trial, card.node.card.uuid);
  if (!nvml) return nvml.error();
  std::vector<RunningProgram> clients;
  Json percents = Json::object();
  for (const int percent : {30, 70}) {
    auto client = start_and_wait(card.mps->client(share_of(percent, kBusyMiB), {"busy"}));
    expect_client(findings, fmt::format("a client with {} % runs", percent), client);
    if (!client) return {};
    percents[std::to_string(client->pid())] = percent;
    clients.push_back(*std::move(client));
  }
  findings.fact("clients and their shares", percents, "percent");
  findings.fact("servers", card.mps->servers());
  watch_clients(trial, **nvml, findings);
  end_all(clients);
  return {};
}

}  // namespace mgpu::gpu_trial
