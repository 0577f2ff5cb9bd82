// Runs each check in a process of its own, so that one that fails, crashes or hangs stops no other,
// and ends all processes that it started, whatever session they are in.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/check.h"

namespace mgpu::gpu_trial {

enum class Status {
  kPassed,    // every expectation held
  kFailed,    // an expectation did not hold
  kError,     // the check could not be made
  kTimedOut,  // the check took longer than its limit, or there was no time left for it
  kSkipped,   // the check has no meaning on this machine
};
std::string_view to_string(Status status);  // "passed", "FAILED", "TIMED OUT", ...

struct Outcome {
  std::string name;
  std::string question;
  Status status = Status::kPassed;
  std::string reason;  // reason of an error, a timeout or a skipped check
  std::chrono::milliseconds duration{0};
  std::vector<Json> findings;  // lines of Findings, without "skipped"
};

// Runs checks, and ends all their processes. A program has only one runner. Not thread-safe.
class Runner {
 public:
  // From now on, descendants without a parent become children of this process
  // (PR_SET_CHILD_SUBREAPER). SIGHUP, SIGINT, SIGQUIT and SIGTERM end the running check, and
  // SIGPIPE is ignored. `log` is the descriptor for the standard error of the checks; it is not
  // owned. REQUIRES: this process has no children, because all its children are taken for those of
  // checks.
  explicit Runner(int log);

  // Runs a check for at most `limit`, which may be shorter than the check's own limit. None of its
  // processes remains; if one hangs in the kernel, the check is an error.
  Outcome run(const Check& check, const Trial& trial, std::chrono::milliseconds limit);
  // Whether a signal has ended the running check. No other check should be started then.
  static bool interrupted();
  // The constructor installs them too. A caller that has blocked signals calls this before.
  static void install_signal_handlers();
  // Ignores signals from now on, for checks that must always run.
  static void ignore_signals();

 private:
  void end_descendants(Outcome& outcome);

  const int log_;
  std::set<pid_t> stuck_;  // children that could not be ended
};

// The status that follows from the findings of a completed check.
Status status_of(const std::vector<Json>& findings);

}  // namespace mgpu::gpu_trial
