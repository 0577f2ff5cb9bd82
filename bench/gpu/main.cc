// mgpu-gpu-trial: tries the device plugin's code on a real GPU. run.sh starts it.

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/container.h"
#include "bench/gpu/machine.h"
#include "bench/gpu/report.h"
#include "bench/gpu/runner.h"
#include "bench/gpu/trial.h"
#include "common/options.h"
#include "common/text.h"

namespace {

namespace fs = std::filesystem;
using namespace mgpu::gpu_trial;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kFailed = 1;
constexpr int kNoCard = 3;
constexpr int kInterrupted = 130;
// For the check of the settings, which runs however little time is left.
constexpr milliseconds kTimeForSettings{30'000};

struct Flags {
  Trial trial;
  std::string output;
  std::vector<std::string> only;
  bool list = false;
  mgpu::Duration time_limit{450'000};
  mgpu::Duration check_limit{150'000};
  mgpu::Duration measure{1'500};
};

// --- flags ---------------------------------------------------------------------------------------

bool is_a_check(const std::string& name) {
  const auto checks = all_checks();
  return std::any_of(checks.begin(), checks.end(),
                     [&](const Check& check) { return check.name == name; });
}

mgpu::Result<void> check_flags(const Flags& flags) {
  if (flags.list) return {};
  if (flags.trial.folder.empty())
    return mgpu::error("--folder: want the folder that build.sh made");
  if (!fs::exists(flags.trial.cuda_program())) {
    return mgpu::error(
        fmt::format("--folder: {} has no bin/mgpu-cuda-program; want the folder "
                    "that build.sh made",
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
  options.add_text("folder", "what build.sh made", trial.folder);
  options.add_text("output", "folder for results.json and the logs; empty = <folder>/results",
                   flags.output);
  options.add_texts("only", "a check to run; all when not given", flags.only);
  options.add_flag("list", "print the checks and end", flags.list);
  options.add_text("card", "UUID of the card; empty = the first healthy one", trial.card);
  options.add_duration("time-limit", "for all checks; those that no time is left for are skipped",
                       flags.time_limit, mgpu::Duration(1'000), mgpu::Duration(3'600'000));
  options.add_duration("check-limit", "for one check; each has a limit of its own, too",
                       flags.check_limit, mgpu::Duration(100), mgpu::Duration(600'000));
  options.add_duration("measure", "how long one measurement of throughput takes", flags.measure,
                       mgpu::Duration(10), mgpu::Duration(60'000));
  options.add_number("kills", "MPS clients that are killed while they compute", trial.kills, 1,
                     10'000);
  options.add_flag("exclusive",
                   "also set the compute mode EXCLUSIVE_PROCESS for a moment; it is put back",
                   trial.exclusive);
  options.add_text("nvml", "the NVML library; empty = where the device plugin looks", trial.nvml);
  options.add_text("node-root", "where this process sees the files of the node", trial.node_root);
  options.add_text("driver-root", "where on the node the driver is installed", trial.driver_root);
  options.add_text("mps-control", "NVIDIA's MPS control program", trial.mps_control);
  options.add_text("nvidia-smi", "NVIDIA's nvidia-smi", trial.nvidia_smi);
  options.add_text("runc", "the runtime of the check container-runc; empty = the one in the folder",
                   trial.runc);
  options.check([&flags] { return check_flags(flags); });
}

// --- one trial -----------------------------------------------------------------------------------

std::string now_text() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

// The logs of MPS daemons of a check, kept although its scratch folder goes.
void keep_mps_logs(const Trial& trial, std::string_view check, const std::string& kept) {
  std::error_code failed;
  std::ofstream all(kept, std::ios::app);
  fs::recursive_directory_iterator at(trial.scratch + "/mps", failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    if (!at->is_regular_file(failed) || at->path().extension() != ".log") continue;
    std::ifstream one(at->path());
    all << "== " << check << " " << at->path().filename().string() << "\n";
    if (one.peek() != std::ifstream::traits_type::eof()) all << one.rdbuf();
  }
}

class TrialRun {
 public:
  TrialRun(Flags& flags, int log) : flags_(flags), runner_(log), start_(steady_clock::now()) {
    report_.date = now_text();
  }

  int run() {
    const Check machine = look_at_machine();
    report_.machine = run_one(machine, machine.limit);
    if (Runner::interrupted()) return kInterrupted;
    if (report_.machine.status != Status::kPassed) return say_why_not();
    show(report_.machine);
    flags_.trial.settings = settings_in(report_.machine.findings);
    for (const Check& check : all_checks()) {
      if (!is_wanted(check) || Runner::interrupted()) continue;
      add(run_in_time(check));
    }
    report_.interrupted = Runner::interrupted();
    Runner::forget_interrupt();
    add(run_one(put_settings_back(), kTimeForSettings));
    const std::string summary =
        fmt::format("{} in {:.0f} s; {}\n", summary_of(report_), report_.seconds, results_file());
    std::fputs(summary.c_str(), stdout);
    if (report_.interrupted) return kInterrupted;
    return all_passed(report_) ? 0 : kFailed;
  }

 private:
  int say_why_not() const {
    fmt::print(stderr, "mgpu-gpu-trial: no GPU can be tried on this machine: {}\n",
               report_.machine.reason);
    return report_.machine.status == Status::kError ? kNoCard : kFailed;
  }

  bool is_wanted(const Check& check) const {
    const auto& only = flags_.only;
    return only.empty() || std::find(only.begin(), only.end(), check.name) != only.end();
  }

  milliseconds time_left() const {
    const auto spent = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start_);
    return milliseconds(flags_.time_limit.count()) - spent - kTimeForSettings;
  }

  Outcome run_in_time(const Check& check) {
    const milliseconds most(flags_.check_limit.count());
    const milliseconds limit = std::min({milliseconds(check.limit), most, time_left()});
    if (limit > milliseconds(0)) return run_one(check, limit);
    return {.name = std::string(check.name),
            .question = std::string(check.question),
            .status = Status::kSkipped,
            .reason = "no time was left",
            .duration = milliseconds(0),
            .findings = {}};
  }

  Outcome run_one(const Check& check, milliseconds limit) {
    const Trial& trial = flags_.trial;
    fs::create_directory(trial.scratch);
    Outcome outcome = runner_.run(check, trial, limit);
    keep_mps_logs(trial, check.name, flags_.output + "/mps.log");
    std::error_code ignored;
    fs::remove_all(trial.scratch, ignored);
    return outcome;
  }

  static void show(const Outcome& outcome) {
    std::fputs(table_of(outcome).c_str(), stdout);
    std::fflush(stdout);
  }

  // Written after each check, so that a machine that goes away leaves what there is.
  void add(Outcome outcome) {
    show(outcome);
    report_.checks.push_back(std::move(outcome));
    report_.seconds = std::chrono::duration<double>(steady_clock::now() - start_).count();
    std::ofstream(results_file() + ".new") << json_of(report_);
    fs::rename(results_file() + ".new", results_file());
  }

  std::string results_file() const { return flags_.output + "/results.json"; }

  Flags& flags_;
  Runner runner_;
  const steady_clock::time_point start_;
  Report report_;
};

// A folder that nobody else can have made, for as long as the trial runs. Its path is short: that
// of an MPS socket below it has at most 108 bytes.
class ScratchFolder {
 public:
  ScratchFolder() {
    if (::mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error("cannot make a folder in /tmp");
    // Programs of other users find the pipe directory of their MPS daemon below it.
    ::chmod(path_.c_str(), 0711);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/mgpu-gpu.XXXXXX";
};

int list_checks() {
  for (const Check& check : all_checks()) fmt::print("{:<20} {}\n", check.name, check.question);
  return 0;
}

int run_trial(Flags& flags) {
  Trial& trial = flags.trial;
  trial.folder = fs::absolute(trial.folder);
  if (trial.runc.empty()) trial.runc = trial.folder + "/bin/runc";
  trial.measure = milliseconds(flags.measure.count());
  if (flags.output.empty()) flags.output = trial.folder + "/results";
  flags.output = fs::absolute(flags.output);
  fs::create_directories(flags.output);
  const std::string log_file = flags.output + "/log.txt";
  std::ofstream(flags.output + "/mps.log", std::ios::trunc);
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) throw std::runtime_error("cannot write " + log_file);
  const ScratchFolder scratch;
  trial.scratch = scratch.path() + "/check";
  const int code = TrialRun(flags, log).run();
  ::close(log);
  return code;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "enter") {
    std::_Exit(enter(std::vector<std::string>(arguments + 2, arguments + count)));
  }
  Flags flags;
  mgpu::Options options("mgpu-gpu-trial", "Tries the device plugin's code on a real GPU.", "");
  add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(count, arguments);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (flags.list) return list_checks();
  try {
    return run_trial(flags);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "mgpu-gpu-trial: {}\n", problem.what());
    return kFailed;
  }
}
