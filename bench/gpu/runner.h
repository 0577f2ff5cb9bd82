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
  kFailed,    // one did not
  kError,     // the question could not be asked
  kTimedOut,  // it took longer than its limit, or no time was left for it
  kSkipped,   // it has no meaning on this machine
};
std::string_view to_text(Status status);  // "passed", "timed out", ...

struct Outcome {
  std::string name;
  std::string question;
  Status status = Status::kPassed;
  std::string reason;  // of an error, a time-out or a skipped check
  std::chrono::milliseconds duration{0};
  std::vector<Json> findings;  // lines of Findings, without "skipped"
};

// A process that ends all its descendants. One for the life of the program; for one thread.
class Runner {
 public:
  // Processes whose parent ends become children of this one from now on (PR_SET_CHILD_SUBREAPER).
  // SIGHUP, SIGINT, SIGQUIT and SIGTERM end the check that runs, and SIGPIPE is ignored. `log`,
  // which is not owned, is the descriptor that standard error of the checks goes to. REQUIRES: this
  // process has no children: all that it gets are taken for those of checks.
  explicit Runner(int log);

  // At most `limit` long, which may be shorter than the check's own. None of the processes that it
  // started is left afterwards; one that hangs in the kernel makes this check an error, and no
  // other.
  Outcome run(const Check& check, const Trial& trial, std::chrono::milliseconds limit);
  // Whether a signal came: the check that ran was ended, and no more should be started.
  static bool interrupted();
  // The constructor does it, too; before it for who has blocked signals.
  static void install_signal_handlers();
  // For what has to run nevertheless: signals are ignored from now on.
  static void ignore_signals();

 private:
  void end_descendants(Outcome& outcome);

  const int log_;
  std::set<pid_t> stuck_;  // children that could not be ended
};

// The status that the findings of a check that ran to its end amount to.
Status status_of(const std::vector<Json>& findings);

}  // namespace mgpu::gpu_trial
