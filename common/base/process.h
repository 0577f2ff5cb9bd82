// Starts and ends programs. Every wait is bounded, programs inherit only the descriptors that are
// named, and no process is left behind. Any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace mgpu {

struct ProgramCall {
  std::string path;  // or a name to be found in $PATH
  std::vector<std::string> arguments{};
  std::vector<std::string> variables{};  // "NAME=value", in addition to those of this process
  int in = -1;
  int out = -1;  // its standard output
  int err = -1;  // its standard error; negative: the same as `out`
  // Variables of this process whose names begin with this are not passed on. Empty: all are.
  std::string removed_prefix{};
  // Not empty: the program has this as its root folder, and `path` is an absolute path in it. Needs
  // CAP_SYS_CHROOT.
  std::string root{};
  // In a session of its own. Otherwise it has the terminal of this process, if there is one.
  bool new_session = true;
};

// Errors: the program does not exist, or cannot be started.
Result<pid_t> spawn(const ProgramCall& program);
// Returns the wait status of a child that has ended, which is then reaped; none if it is running or
// is not a child.
std::optional<int> reap(pid_t child);
// Kills the processes of a session. If the leader is a child, waits a short time for its end; if it
// has not ended then, it is reaped later.
void kill_session(pid_t leader);
// The same for one child without a session of its own.
void kill_child(pid_t child);

// Runs the program (`in`, `out` and `err` are ignored) with `text` as its input and returns its
// output. Errors: it fails, prints more than `bytes_max`, or does not end in time; it is killed
// then.
Result<std::string> run_with_input(ProgramCall program, const std::string& text,
                                   std::size_t bytes_max, std::chrono::milliseconds timeout);

struct ProgramResult {
  std::string exit;  // "exit code 1" or "signal 9"; empty: it succeeded
  std::string out;
  std::string err;  // empty if it was not read
};

// Runs the program with the standard input `in` and returns what it has printed. Standard error is
// read too, unless `err` is set. Errors: it cannot be started, prints more than `bytes_max` to
// either, or does not end before `timeout` or `cancelled`; it is killed then.
Result<ProgramResult> run_for_output(ProgramCall program, std::size_t bytes_max,
                                     std::chrono::milliseconds timeout,
                                     const std::atomic<bool>& cancelled);

}  // namespace mgpu
