// Starts and ends programs. Every wait is bounded, programs inherit only the descriptors that are
// named, and no process is left behind. Any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace mgpu::plugin {

struct Program {
  std::string path;  // or a name to be found in $PATH
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value", in addition to those of this process
  int in = -1;
  int out = -1;  // its standard output and standard error
};

// Starts the program in a session of its own. Errors: it does not exist, or cannot be started.
Result<pid_t> spawn(const Program& program);
// Returns the wait status of a child that has ended, which is then reaped; none if it is running or
// is not a child.
std::optional<int> reap(pid_t child);
// Kills the processes of a session. If the leader is a child, waits a short time for its end; if it
// has not ended then, it is reaped later.
void kill_session(pid_t leader);

// Runs the program (`in` and `out` are ignored) with `text` as its input and returns its output.
// Errors: it fails, prints more than `bytes_max`, or does not end in time; it is killed then.
Result<std::string> run_with_input(Program program, const std::string& text, std::size_t bytes_max,
                                   std::chrono::milliseconds timeout);

}  // namespace mgpu::plugin
