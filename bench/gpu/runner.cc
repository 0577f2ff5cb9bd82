#include "bench/gpu/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A check that writes more than this has a defect.
constexpr std::size_t kFindingsBytesMax = std::size_t{1} << 20;
// A killed process ends at once, unless it hangs in the driver.
constexpr milliseconds kKillTimeout{10'000};
constexpr int kExitError = 1;
// Maximum length of /proc/<pid>/stat, which has about 50 numbers and a short name.
constexpr std::size_t kProcFileBytesMax = 4096;

// By the numbers of the statuses.
constexpr std::array<std::string_view, 5> kStatuses{"passed", "FAILED", "ERROR", "TIMED OUT",
                                                    "skipped"};
static_assert(static_cast<std::size_t>(Status::kSkipped) + 1 == kStatuses.size());
constexpr std::array kSignals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
// Limit for the files that a check and its programs write, because a daemon may write an endless
// log.
constexpr rlim_t kFileBytesMax = rlim_t{2} << 30;
std::atomic<bool> signal_came = false;

void note_signal(int) {
  signal_came = true;
}

// --- the process of a check ----------------------------------------------------------------------

void write_line(int to, const Json& finding) {
  const std::string line = finding.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(to, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

Result<void> run_guarded(const Check& check, const Trial& trial, Findings& findings) {
  try {
    return check.run(trial, findings);
  } catch (const std::exception& thrown) {
    return error(thrown.what());
  }
}

[[noreturn]] void run_check_in_child(const Check& check, const Trial& trial,
                                     steady_clock::time_point deadline, int findings_to, int log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  for (const int number : kSignals) ::signal(number, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  const rlimit file_size{kFileBytesMax, kFileBytesMax};
  ::setrlimit(RLIMIT_FSIZE, &file_size);
  ::dup2(log, STDERR_FILENO);
  ::dup2(log, STDOUT_FILENO);
  Findings findings([findings_to](const Json& finding) { write_line(findings_to, finding); },
                    deadline);
  const auto ran = run_guarded(check, trial, findings);
  if (!ran) write_line(findings_to, {{"error", ran.error().message}});
  write_line(findings_to, {{"done", true}});
  // The child does not flush or destroy objects of the runner.
  ::_exit(ran ? 0 : kExitError);
}

// --- end and outcome of a check ------------------------------------------------------------------

// The parent of a process, from /proc/<pid>/stat (proc(5)).
std::optional<pid_t> parent_of(const std::filesystem::path& process) {
  const auto text = read_file(process / "stat", kProcFileBytesMax);
  if (!text) return std::nullopt;
  const std::size_t name_end = text->rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= text->size()) return std::nullopt;
  const char* const begin = text->data() + name_end + 4;  // after the state
  pid_t parent = 0;
  const auto [end, code] = std::from_chars(begin, text->data() + text->size(), parent);
  return code == std::errc() ? std::optional(parent) : std::nullopt;
}

std::vector<pid_t> children_except(const std::set<pid_t>& stuck) {
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    const auto pid = parse_number<pid_t>(name);
    if (pid && parent_of("/proc/" + name) == ::getpid() && !stuck.contains(*pid))
      found.push_back(*pid);
  }
  return found;
}

// Kills the children, and the processes that thereby become children, until there are none.
// Processes that are left after a while hang in the kernel.
std::vector<pid_t> kill_children_except(const std::set<pid_t>& stuck) {
  const auto deadline = steady_clock::now() + kKillTimeout;
  std::vector<pid_t> left = children_except(stuck);
  while (!left.empty() && steady_clock::now() < deadline) {
    for (const pid_t child : left) ::kill(child, SIGKILL);
    for (const pid_t child : left) ::waitpid(child, nullptr, WNOHANG);
    ::poll(nullptr, 0, 2);
    left = children_except(stuck);
  }
  return left;
}

bool has_ended(pid_t child) {
  siginfo_t state{};
  return ::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         state.si_pid == child;
}

// Appends the available data to the text. Returns false at the end.
bool read_some(int from, milliseconds timeout, std::string& text) {
  std::array<char, 4096> part{};
  pollfd ready{from, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return true;
  const ssize_t count = ::read(from, part.data(), part.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  // Data above the limit is read and discarded, so that the check is not blocked.
  if (text.size() <= kFindingsBytesMax) text.append(part.data(), static_cast<std::size_t>(count));
  return count > 0;
}

// Reads until the check has ended, the time is over, or a signal has arrived. It does not wait for
// the end of the pipe, because remaining processes of the check may keep it open.
std::string read_findings(int from, pid_t child, steady_clock::time_point deadline, bool& ended) {
  constexpr milliseconds kTick{50};
  std::string text;
  ended = false;
  while (!ended && !Runner::interrupted() && steady_clock::now() < deadline) {
    const bool gone = has_ended(child);
    std::size_t before = 0;
    do {
      before = text.size();
      ended = !read_some(from, gone ? milliseconds(0) : kTick, text);
    } while (gone && !ended && text.size() > before);
    ended = ended || gone;
  }
  return text;
}

void add_finding(Json finding, std::vector<Json>& findings) {
  const auto same = std::find_if(findings.begin(), findings.end(), [&](const Json& earlier) {
    return finding.contains("fact") && earlier.value("fact", Json()) == finding["fact"];
  });
  if (same != findings.end()) {
    *same = std::move(finding);
  } else {
    findings.push_back(std::move(finding));
  }
}

// Reads a line of a check. Errors and reasons to skip are stored in the outcome, all other lines
// are findings. The last line of a completed check sets `done`.
void parse_line(std::string_view line, Outcome& outcome, bool& done) {
  Json finding = Json::parse(line, nullptr, false);
  if (!finding.is_object()) return;
  if (finding.contains("done")) {
    done = true;
  } else if (finding.contains("error")) {
    outcome.status = Status::kError;
    outcome.reason = finding["error"];
  } else if (finding.contains("skipped")) {
    outcome.status = Status::kSkipped;
    outcome.reason = finding["skipped"];
  } else {
    add_finding(std::move(finding), outcome.findings);
  }
}

bool parse_lines(std::string_view text, Outcome& outcome) {
  bool done = false;
  while (!text.empty()) parse_line(take_line(text), outcome, done);
  return done;
}

// The exit status of a child that ends now. A child that hangs in the kernel has none.
int status_at_end_of(pid_t child) {
  const auto deadline = steady_clock::now() + kKillTimeout;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0 && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 2);
  }
  return status;
}

// A text about the end of a check's process.
struct End {
  bool in_time = false;
  bool done = false;  // it came to its last line
  int status = 0;     // as of waitpid()
};

std::string exit_text(const End& end) {
  return WIFSIGNALED(end.status) ? fmt::format("signal {}", WTERMSIG(end.status))
                                 : fmt::format("exit code {}", WEXITSTATUS(end.status));
}

// Sets the status by the end of the process, unless the check has reported a status.
void set_status(const End& end, milliseconds limit, Outcome& outcome) {
  const auto set = [&](Status to, std::string reason) {
    outcome.status = to;
    outcome.reason = std::move(reason);
  };
  if (Runner::interrupted()) {
    set(Status::kError, "the trial was interrupted");
  } else if (!end.in_time) {
    set(Status::kTimedOut,
        fmt::format("no answer within {} s", std::chrono::duration<double>(limit).count()));
  } else if (!end.done) {
    set(Status::kError, fmt::format("the check ended before its time: {}", exit_text(end)));
  } else if (outcome.status == Status::kPassed) {
    outcome.status = status_of(outcome.findings);
  }
}

Outcome cannot_run(Outcome outcome, const char* what, int number) {
  outcome.status = Status::kError;
  outcome.reason = fmt::format("cannot make a {}: {}", what, std::strerror(number));
  return outcome;
}

}  // namespace

std::string_view to_string(Status status) {
  return kStatuses.at(static_cast<std::size_t>(status));
}

Status status_of(const std::vector<Json>& findings) {
  const bool failed = std::any_of(findings.begin(), findings.end(),
                                  [](const Json& finding) { return !finding.value("held", true); });
  return failed ? Status::kFailed : Status::kPassed;
}

Runner::Runner(int log) : log_(log) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  install_signal_handlers();
}

void Runner::install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = note_signal;  // without SA_RESTART, so that poll() returns
  for (const int number : kSignals) ::sigaction(number, &action, nullptr);
  // The checks continue if the reader of the table ends.
  ::signal(SIGPIPE, SIG_IGN);
}

bool Runner::interrupted() {
  return signal_came;
}

void Runner::ignore_signals() {
  for (const int number : kSignals) ::signal(number, SIG_IGN);
  signal_came = false;
}

Outcome Runner::run(const Check& check, const Trial& trial, milliseconds limit) {
  const auto start = steady_clock::now();
  Outcome outcome;
  outcome.name = check.name;
  outcome.question = check.question;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot_run(std::move(outcome), "pipe", errno);
  UniqueFd own(ends[0]);
  UniqueFd other(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) run_check_in_child(check, trial, start + limit, other.number(), log_);
  if (child < 0) return cannot_run(std::move(outcome), "process", errno);
  other.close();
  End end;
  const std::string text = read_findings(own.number(), child, start + limit, end.in_time);
  own.close();
  end.done = parse_lines(text, outcome);
  if (!end.in_time) ::kill(child, SIGKILL);
  end.status = status_at_end_of(child);
  set_status(end, limit, outcome);
  if (text.size() > kFindingsBytesMax) {
    outcome.status = Status::kError;
    outcome.reason = fmt::format("it found more than {} bytes", kFindingsBytesMax);
  }
  end_descendants(outcome);
  outcome.duration = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
  return outcome;
}

void Runner::end_descendants(Outcome& outcome) {
  const std::vector<pid_t> left = kill_children_except(stuck_);
  if (left.empty()) return;
  stuck_.insert(left.begin(), left.end());
  outcome.status = Status::kError;
  outcome.reason = fmt::format("process {} cannot be ended: it hangs in the kernel", left.front());
}

}  // namespace mgpu::gpu_trial
