// mgpu-gpu-trial: tests the device plugin's code on a real GPU. run.sh starts it.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/trial.h"
#include "bench/gpu/trial_run.h"
#include "common/base/options.h"
#include "common/base/text.h"

namespace {

namespace fs = std::filesystem;
using namespace mgpu::gpu_trial;
using std::chrono::milliseconds;

struct Flags {
  Trial trial;
  std::string output;
  std::vector<std::string> only;
  bool list = false;
  mgpu::Duration time_limit{540'000};
  mgpu::Duration check_limit{150'000};
  mgpu::Duration measure{1'500};
};

bool is_a_check(const std::string& name) {
  const auto checks = all_checks();
  return std::any_of(checks.begin(), checks.end(),
                     [&](const Check& check) { return check.name == name; });
}

mgpu::Result<void> check_flags(const Flags& flags) {
  if (flags.list) return {};
  if (!fs::exists(flags.trial.cuda_program())) {
    return mgpu::error(
        fmt::format("--folder: {} has no bin/mgpu-cuda-program; expected the folder "
                    "that bench/gpu/build.sh made",
                    mgpu::in_quotes(flags.trial.folder)));
  }
  for (const std::string& name : flags.only) {
    if (!is_a_check(name)) {
      return mgpu::error(
          fmt::format("--only: {} is no check; --list names them", mgpu::in_quotes(name)));
    }
  }
  return {};
}

void add_flags(mgpu::Options& options, Flags& flags) {
  Trial& trial = flags.trial;
  options.add_text("folder", "Folder that bench/gpu/build.sh made.", trial.folder);
  options.add_text("output", "Folder for results.json and the logs. If empty, <folder>/results.",
                   flags.output);
  options.add_texts("only", "Check to run. If not given, all checks run.", flags.only);
  options.add_flag("list", "Print the checks and exit.", flags.list);
  options.add_text("card", "UUID of the card. If empty, the first healthy one.", trial.card);
  options.add_duration("time-limit",
                       "Time for all checks together. Checks that do not fit are not run.",
                       flags.time_limit, mgpu::Duration(1'000), mgpu::Duration(3'600'000));
  options.add_duration("check-limit", "Time for one check, if shorter than the check's own limit.",
                       flags.check_limit, mgpu::Duration(100), mgpu::Duration(600'000));
  options.add_duration("measure", "Duration of one measurement of throughput.", flags.measure,
                       mgpu::Duration(10), mgpu::Duration(60'000));
  options.add_number("kills", "Number of MPS clients that are killed while they compute.",
                     trial.kills, 1, 10'000);
  options.add_flag(
      "exclusive",
      "Also set the compute mode EXCLUSIVE_PROCESS for a moment. It is restored afterwards.",
      trial.exclusive);
  options.add_flag("reset", "Also reset the card, which ends all programs on it.", trial.reset);
  options.add_text("nvml", "NVML library. If empty, the one that the device plugin finds.",
                   trial.nvml);
  options.add_text("node-root", "Path at which this process sees the root directory of the node.",
                   trial.node_root);
  options.add_text("driver-root",
                   "Path at which the driver is installed on the node. If empty, the one that the "
                   "device plugin finds.",
                   trial.driver_root);
  options.add_text("mps-control", "NVIDIA's MPS control program.", trial.mps_control);
  options.add_text("nvidia-smi", "NVIDIA's nvidia-smi.", trial.nvidia_smi);
  options.add_text("stand-ins", "Folder that all containers get, for tests without a GPU.",
                   trial.stand_ins);
  options.add_text("runc", "Path or name of runc. If empty, the one in the folder.", trial.runc);
  options.check([&flags] { return check_flags(flags); });
}

int list_checks() {
  for (const Check& check : all_checks()) fmt::print("{:<20} {}\n", check.name, check.question);
  return 0;
}

int run(Flags& flags) {
  Trial& trial = flags.trial;
  trial.folder = fs::absolute(trial.folder);
  if (trial.runc.empty()) trial.runc = trial.folder + "/bin/runc";
  trial.measure = milliseconds(flags.measure.count());
  if (flags.output.empty()) flags.output = trial.folder + "/results";
  return run_trial(trial, {.output = fs::absolute(flags.output),
                           .only = flags.only,
                           .time_limit = milliseconds(flags.time_limit.count()),
                           .check_limit = milliseconds(flags.check_limit.count())});
}

// Opens missing standard descriptors, so that files which are opened later do not get their
// numbers.
void open_standard_descriptors() {
  int opened = 0;
  do {
    opened = ::open("/dev/null", O_RDWR);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened > STDERR_FILENO) ::close(opened);
}

}  // namespace

int main(int count, char** arguments) {
  open_standard_descriptors();
  Flags flags;
  mgpu::Options options("mgpu-gpu-trial", "Tries the device plugin's code on a real GPU.", "");
  add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(count, arguments);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  return flags.list ? list_checks() : run(flags);
}
