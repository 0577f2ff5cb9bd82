// Runs histories of the simulated cluster. The first one that breaks a promise ends the program
// with status 1; its seed and a shorter plan that still breaks the promise are printed.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/options.h"
#include "test/simulation/history.h"

namespace {

using Clock = std::chrono::steady_clock;
using mgpu::simulation::Event;
using mgpu::simulation::Outcome;

struct Flags {
  std::int64_t first_seed = 1;
  std::int64_t histories = 1'000'000'000;
  std::int64_t step = 1;
  std::int64_t shrink_runs = 300;
  mgpu::Duration time{60'000};
  std::string seeds_file;
};

void add_flags(mgpu::Options& options, Flags& flags) {
  constexpr std::int64_t kMax = 1'000'000'000'000'000;
  options.add_number("first-seed", "Seed of the first history.", flags.first_seed, 0, kMax);
  options.add_number("step", "Difference between the seeds of two histories.", flags.step, 1, kMax);
  options.add_number("histories", "Number of histories.", flags.histories, 1, kMax);
  options.add_duration("time", "No history begins after this time.", flags.time, mgpu::Duration(1),
                       mgpu::Duration(1'000'000'000));
  options.add_number("shrink-runs", "Histories that are run to find a shorter plan.",
                     flags.shrink_runs, 0, kMax);
  options.add_text("seeds-file", "File with one seed in each line, which are run first.",
                   flags.seeds_file);
}

std::string scratch_folder() {
  return fmt::format("/dev/shm/mgpu-simulate-{}", ::getpid());
}

Outcome run(std::uint64_t seed) {
  return mgpu::simulation::run_history(mgpu::simulation::plan_of(seed), seed, scratch_folder());
}

double in_seconds(mgpu::Duration time) {
  return std::chrono::duration<double>(time).count();
}

void report(std::uint64_t seed, const Outcome& outcome, int shrink_runs) {
  fmt::print("seed {}: after {:.3f} s: {}\n", seed, in_seconds(outcome.at), *outcome.violation);
  std::fflush(stdout);
  const auto plan = mgpu::simulation::shrink(mgpu::simulation::plan_of(seed), seed,
                                             scratch_folder(), shrink_runs);
  const auto again = mgpu::simulation::run_history(plan, seed, scratch_folder());
  fmt::print("shorter history, {} events: after {:.3f} s: {}\n", plan.size(), in_seconds(again.at),
             again.violation.value_or("nothing"));
  for (const Event& event : plan) fmt::print("  {}\n", mgpu::simulation::text_of(event));
}

std::vector<std::uint64_t> read_seeds(const std::string& path) {
  std::vector<std::uint64_t> seeds;
  std::ifstream file(path);
  for (std::uint64_t seed = 0; file >> seed;) seeds.push_back(seed);
  if (!file.eof()) throw std::runtime_error(path + " is not a list of seeds");
  return seeds;
}

int run_all(const Flags& flags) {
  const auto begin = Clock::now();
  long done = 0;
  long cycles = 0;
  long groups = 0;
  long groups_bound = 0;
  long groups_in_part = 0;
  long evicted = 0;
  const auto kept = [&](std::uint64_t seed) {
    const Outcome outcome = run(seed);
    ++done;
    cycles += outcome.scheduling_cycles;
    groups += outcome.groups;
    groups_bound += outcome.groups_bound;
    evicted += outcome.evicted;
    groups_in_part += outcome.groups_in_part;
    if (!outcome.violation) return true;
    fmt::print("history {} breaks a promise\n", done);
    report(seed, outcome, static_cast<int>(flags.shrink_runs));
    return false;
  };
  // Otherwise a seed that breaks a promise would be of no use.
  const auto repeats = [&](std::uint64_t seed) {
    if (run(seed).digest == run(seed).digest) return true;
    fmt::print("history {} breaks a promise: it differs when it is repeated\n", done);
    return false;
  };
  if (!flags.seeds_file.empty()) {
    for (const std::uint64_t seed : read_seeds(flags.seeds_file)) {
      if (!kept(seed)) return 1;
    }
  }
  auto seed = static_cast<std::uint64_t>(flags.first_seed);
  if (!repeats(seed)) return 1;
  for (std::int64_t n = 0; n < flags.histories && Clock::now() - begin < flags.time; ++n) {
    if (!kept(seed)) return 1;
    seed += static_cast<std::uint64_t>(flags.step);
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  fmt::print(
      "{} histories with {} scheduling cycles and {} groups kept all promises, {:.0f} s\n"
      "{} groups were bound, {} of them in part after a call about them was lost; {} "
      "pods were evicted by card\n",
      done, cycles, groups, took.count(), groups_bound + groups_in_part, groups_in_part, evicted);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Flags flags;
  mgpu::Options options("mgpu-simulate", "Runs histories of a simulated cluster.", "");
  add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  if (!parsed.run) {
    std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  if (!mgpu::set_log_level("off")) return 1;
  return run_all(flags);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "mgpu-simulate: %s\n", problem.what());
  return 1;
}
