#include "bench/gpu/trial_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/gpu/check.h"
#include "bench/gpu/container.h"
#include "bench/gpu/machine.h"
#include "bench/gpu/node.h"
#include "bench/gpu/report.h"
#include "bench/gpu/runner.h"
#include "common/base/files.h"
#include "common/base/result.h"
#include "common/base/text.h"
#include "common/base/utc_text.h"

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kSomeDidNotPass = 1;
constexpr int kUsage = 2;
constexpr int kNoCard = 3;
constexpr int kInterrupted = 130;
// Time for the check of the settings, which always runs.
constexpr milliseconds kTimeForSettings{30'000};
// Time to end hanging processes of the last check and of the check of the settings.
constexpr milliseconds kTimeForTheEnd = kTimeForSettings + milliseconds(20'000);
// The lock of a trial. Two concurrent trials would affect each other's measurements and settings.
constexpr char kLockFile[] = "/run/mgpu-gpu-trial.lock";
constexpr std::array kEndingSignals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
// Limit for the log of one daemon, because the log of a failing daemon grows quickly.
constexpr std::size_t kMpsLogBytesMax = std::size_t{1} << 20;

Error cannot(const char* what, const std::string& path, int number) {
  return error(fmt::format("cannot {} {}: {}", what, in_quotes(path), std::strerror(number)));
}

// --- files ---------------------------------------------------------------------------------------

// A new temporary folder, which is removed at the end. Its path is short, because the path of an
// MPS socket below it may have at most 108 bytes.
class ScratchFolder {
 public:
  ScratchFolder() : is_there_(::mkdtemp(path_.data()) != nullptr) {
    // Programs of other users need the pipe directory of their MPS daemon below it.
    if (is_there_) ::chmod(path_.c_str(), 0711);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (is_there_) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  bool is_there() const { return is_there_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/mgpu-gpu.XXXXXX";
  const bool is_there_;
};

// Returns the end of a file.
std::string end_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::ate);
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  std::string text(std::min(size, kMpsLogBytesMax), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// The files of a trial. An error is reported once at the end.
class OutputFiles {
 public:
  // Errors: the folder or its files cannot be made.
  static Result<OutputFiles> make(const std::string& folder) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) return cannot("make the folder", folder, failed.value());
    OutputFiles files(folder);
    fs::remove(files.results(), failed);
    for (int* const log : {&files.log_, &files.mps_log_}) {
      const std::string path = folder + (log == &files.log_ ? "/log.txt" : "/mps.log");
      *log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                    0644);
      if (*log < 0) return cannot("write", path, errno);
    }
    return files;
  }

  // The descriptor stays open until the program ends.
  int log() const { return log_; }
  std::string results() const { return folder_ + "/results.json"; }
  const std::string& problem() const { return problem_; }

  void write_results(const std::string& json) {
    const auto written = write_file(results(), json, Durability::kProcess);
    if (!written) problem_ = written.error().message;
  }

  // Saves the ends of the logs of MPS daemons in `scratch`, which is removed afterwards.
  void keep_mps_logs(const std::string& scratch, std::string_view check) {
    std::error_code failed;
    fs::recursive_directory_iterator at(scratch + "/mps", failed);
    for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
      if (!at->is_regular_file(failed) || at->path().extension() != ".log") continue;
      const std::string text = fmt::format("== {} {}\n{}", check, at->path().filename().string(),
                                           end_of_file(at->path()));
      if (::write(mps_log_, text.data(), text.size()) < 0) {
        problem_ = cannot("write", folder_ + "/mps.log", errno).message;
      }
    }
  }

 private:
  explicit OutputFiles(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
  int log_ = -1;
  int mps_log_ = -1;
  std::string problem_;
};

// --- the trial -----------------------------------------------------------------------------------

class TrialRun {
 public:
  TrialRun(Trial trial, const RunOptions& options, OutputFiles& files)
      : trial_(std::move(trial)), options_(options), files_(files), runner_(files.log()) {
    report_.date = utc_now();
  }

  int run() {
    const Check machine = inspect_machine();
    report_.machine = run_one(machine, std::min<milliseconds>(machine.limit, options_.check_limit));
    if (Runner::interrupted()) return kInterrupted;
    if (report_.machine.status != Status::kPassed) return report_no_card();
    print(table_of(report_.machine));
    // All checks use the same card, even if it becomes unhealthy.
    trial_.card = card_in(report_.machine.findings);
    trial_.settings = settings_in(report_.machine.findings);
    device_file_ = device_file_in(report_.machine.findings);
    for (const Check& check : all_checks()) {
      if (is_wanted(check) && !Runner::interrupted()) add(run_in_time(check));
    }
    report_.interrupted = Runner::interrupted();
    Runner::ignore_signals();
    add(run_one(put_settings_back(), kTimeForSettings));
    return report_end();
  }

 private:
  int report_no_card() const {
    fmt::print(stderr, "mgpu-gpu-trial: no GPU can be tried on this machine: {}\n",
               report_.machine.reason);
    return kNoCard;
  }

  int report_end() const {
    print(fmt::format("{} in {:.0f} s; {}\n", summary_of(report_), report_.seconds,
                      files_.results()));
    if (!files_.problem().empty()) {
      fmt::print(stderr, "mgpu-gpu-trial: {}\n", files_.problem());
      return kSomeDidNotPass;
    }
    if (report_.interrupted) return kInterrupted;
    return all_passed(report_) ? 0 : kSomeDidNotPass;
  }

  bool is_wanted(const Check& check) const {
    const auto& only = options_.only;
    return only.empty() || std::find(only.begin(), only.end(), check.name) != only.end();
  }

  milliseconds time_left() const {
    const auto spent = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start_);
    return options_.time_limit - spent - kTimeForTheEnd;
  }

  // An error is ignored, because it only makes the checks slower.
  void keep_card_open(bool open) {
    if (!open || device_file_.empty()) {
      card_ = UniqueFd();
    } else if (!card_.is_open()) {
      const std::string path = path_on_node(trial_, device_file_);
      card_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    }
  }

  Outcome run_in_time(const Check& check) {
    const milliseconds limit =
        std::min({milliseconds(check.limit), options_.check_limit, time_left()});
    if (limit <= milliseconds(0)) {
      return {.name = std::string(check.name),
              .question = std::string(check.question),
              .status = Status::kTimedOut,
              .reason = "no time was left for it",
              .duration = milliseconds(0),
              .findings = {}};
    }
    keep_card_open(check.card_is_open);
    Outcome outcome = run_one(check, limit);
    // A check may have been ended before it restored the setting.
    const bool ended_early =
        outcome.status == Status::kError || outcome.status == Status::kTimedOut;
    const bool has_time = time_left() > kTimeForTheEnd;
    if (trial_.exclusive && ended_early && has_time && !Runner::interrupted()) {
      run_one(put_settings_back(), kTimeForSettings);
    }
    return outcome;
  }

  Outcome run_one(const Check& check, milliseconds limit) {
    std::error_code ignored;
    fs::create_directory(trial_.scratch, ignored);
    Outcome outcome = runner_.run(check, trial_, limit);
    remove_runc_cgroups();
    files_.keep_mps_logs(trial_.scratch, check.name);
    fs::remove_all(trial_.scratch, ignored);
    return outcome;
  }

  // A closed pipe is ignored, because the results are also in a file. A full disk is reported.
  static void print(const std::string& text) {
    const bool printed = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!printed && errno != EPIPE) std::perror("mgpu-gpu-trial: cannot print");
  }

  // The file is written after each check, so that the results so far are kept if the machine fails.
  void add(Outcome outcome) {
    print(table_of(outcome));
    report_.checks.push_back(std::move(outcome));
    report_.seconds = std::chrono::duration<double>(steady_clock::now() - start_).count();
    files_.write_results(json_of(report_));
  }

  Trial trial_;
  const RunOptions& options_;
  OutputFiles& files_;
  Runner runner_;
  const steady_clock::time_point start_ = steady_clock::now();
  Report report_;
  std::string device_file_;
  UniqueFd card_;
};

int refuse(const std::string& why) {
  fmt::print(stderr, "mgpu-gpu-trial: {}\n", why);
  return kUsage;
}

// Returns the reason why this process cannot run a trial; empty if it can.
std::string obstacle() {
  if (::geteuid() != 0) return "not root; MPS daemons and containers need it";
  std::error_code failed;
  const std::string self = fs::read_symlink("/proc/self", failed);
  if (self != std::to_string(::getpid())) {
    return "/proc does not show the processes of this machine; it is needed to end those of checks";
  }
  return "";
}

int run_alone(Trial trial, const RunOptions& options) {
  const UniqueFd lock(::open(kLockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.is_open()) return refuse(cannot("open", kLockFile, errno).message);
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) {
    return refuse("another trial runs on this machine; wait for its end");
  }
  auto files = OutputFiles::make(options.output);
  if (!files) return refuse(files.error().message);
  const ScratchFolder scratch;
  if (!scratch.is_there()) return refuse("cannot make a folder in \"/tmp\"");
  trial.scratch = scratch.path() + "/check";
  trial.modes = scratch.path() + "/modes";
  return TrialRun(std::move(trial), options, *files).run();
}

// Waits for the trial, and forwards signals to it.
int wait_for(pid_t child, const sigset_t& signals) {
  while (true) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : kInterrupted;
    }
    if (number != SIGCHLD) ::kill(child, number);
  }
}

}  // namespace

int run_trial(Trial trial, const RunOptions& options) {
  if (const std::string why = obstacle(); !why.empty()) return refuse(why);
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int number : kEndingSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  // The trial needs a process without children. This process may have children of a shell, or all
  // orphans of a container.
  const pid_t child = ::fork();
  if (child < 0) return refuse(std::string("cannot make a process: ") + std::strerror(errno));
  if (child > 0) return wait_for(child, signals);
  // The parent forwards the signals of the terminal. Its end is also a signal.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  Runner::install_signal_handlers();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  std::exit(run_alone(std::move(trial), options));
}

}  // namespace mgpu::gpu_trial
