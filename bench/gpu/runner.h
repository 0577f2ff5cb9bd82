// Runs each check in a process of its own, so that one that fails, crashes or hangs stops no other,
// and ends all processes that it started, whatever session they are in.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/check.h"

namespace mgpu::gpu_trial {

enum class Status {
  kPassed,    // every expectation held
  kFailed,    // one did not
  kError,     // the question could not be asked
  kTimedOut,  // it took longer than its limit
  kSkipped,   // it has no meaning here, or no time was left
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
  // `log` is the descriptor that standard error of the checks goes to.
  explicit Runner(int log);

  // At most `limit` long, which may be shorter than the check's own. None of the processes that it
  // started is left afterwards.
  Outcome run(const Check& check, const Trial& trial, std::chrono::milliseconds limit);
  // Whether SIGINT or SIGTERM came: the check that ran was ended, and no more should be started.
  static bool interrupted();
  static void forget_interrupt();

 private:
  const int log_;
};

// The status that the findings of a check that ran to its end amount to.
Status status_of(const std::vector<Json>& findings);

}  // namespace mgpu::gpu_trial
