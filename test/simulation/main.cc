// Runs histories of the simulated cluster until one breaks a promise, and then prints its seed and
// the shortest plan that still breaks it.
//
//   mgpu-simulate [--first-seed N] [--histories N] [--seconds N] [--seeds-file FILE]
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/log.h"
#include "common/base/options.h"
#include "test/simulation/history.h"

namespace {

using mgpu::simulation::Event;

constexpr int kShrinkRunsMax = 2'000;

std::string scratch_folder() {
  return fmt::format("/dev/shm/mgpu-simulate-{}", ::getpid());
}

// Prints the broken promise with its shortest plan.
void report(std::uint64_t seed) {
  const auto plan = mgpu::simulation::plan_of(seed);
  const auto outcome = mgpu::simulation::run_history(plan, seed, scratch_folder());
  fmt::print("seed {}: after {:.3f} s: {}\n", seed, static_cast<double>(outcome.at.count()) / 1'000,
             *outcome.violation);
  std::fflush(stdout);
  const auto fewer = mgpu::simulation::shrink(plan, seed, scratch_folder(), kShrinkRunsMax);
  const auto again = mgpu::simulation::run_history(fewer, seed, scratch_folder());
  fmt::print("shortest history, {} events: after {:.3f} s: {}\n", fewer.size(),
             static_cast<double>(again.at.count()) / 1'000, again.violation.value_or("nothing"));
  for (const Event& event : fewer) fmt::print("  {}\n", mgpu::simulation::text_of(event));
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (!mgpu::set_log_level("off")) return 1;
  std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const long histories = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 100;
  const auto begin = Clock::now();
  long cycles = 0;
  for (long done = 0; done < histories; ++done, ++seed) {
    const auto outcome =
        mgpu::simulation::run_history(mgpu::simulation::plan_of(seed), seed, scratch_folder());
    if (outcome.violation) {
      fmt::print("{} histories without a broken promise, then\n", done);
      report(seed);
      return 1;
    }
    cycles += outcome.scheduling_cycles;
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  fmt::print("{} histories, {} scheduling cycles, {:.1f} s\n", histories, cycles, took.count());
  return 0;
}
