// Programs started and ended, with every wait bounded, nothing inherited that is not named, and
// nothing left behind. Any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace mgpu::plugin {

struct Program {
  std::string path;  // or a name to be found in $PATH
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value", beside those of this process
  int in = -1;
  int out = -1;  // its errors too
};

// Starts it in a session of its own. Errors: it is not there, or cannot be started.
Result<pid_t> spawn(const Program& program);
// Whether a child has ended; it is then forgotten. False for processes that are no children.
bool reap(pid_t child);
// Ends the processes of a session at once; it waits for its leader a moment if that is a child, and
// forgets it later if that was not enough.
void kill_session(pid_t leader);

// Starts it (`in` and `out` do not matter), gives it `text` to read and returns what it prints.
// Errors: it fails, prints more than `bytes_max`, or is not done in time; it is ended then.
Result<std::string> run_with_input(Program program, const std::string& text, std::size_t bytes_max,
                                   std::chrono::milliseconds timeout);

}  // namespace mgpu::plugin
