// A program that a check starts: it prints lines "<name>=<value>", as mgpu-cuda-program does. Every
// wait is bounded. For one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/result.h"
#include "plugin/cards/mps_spawn.h"

namespace mgpu::gpu_trial {

struct Command {
  std::string path;
  std::vector<std::string> arguments;
  std::map<std::string, std::string>
      environment;  // beside that of this process; CUDA_* are dropped
};

class RunningProgram {
 public:
  // Errors: it cannot be started.
  static Result<RunningProgram> start(const Command& command);
  // Ends its input, and kills it where it does not end soon: a client of MPS that is killed may
  // harm others.
  ~RunningProgram();
  RunningProgram(RunningProgram&& other) noexcept;
  RunningProgram& operator=(RunningProgram&&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until it prints `name` anew, and returns that value. Errors: it ended or was silent
  // instead; the sentence has what it said of the reason.
  Result<std::string> next(const std::string& name, std::chrono::milliseconds timeout);
  // Reads what has been printed and does not wait.
  void read_available();
  void send_line();
  // It is to end soon.
  void end_input();
  // Ends its input and reads until it ends. Errors: it did not end within `timeout`; it is killed
  // then.
  Result<int> finish(std::chrono::milliseconds timeout);
  // SIGKILL, to it and to what it started.
  void kill();
  // Whether it has not ended.
  bool is_alive();

  // The last value of `name`; empty: none was printed.
  std::string value(const std::string& name) const;
  // The same as a number; none where there is none.
  std::optional<double> number(const std::string& name) const;
  // What it printed beside values, the end of it.
  const std::string& text() const { return other_; }
  // Why it ended: "cuInit: CUDA_ERROR_NO_DEVICE" where it said that, else the last line that is no
  // value, else its exit code or signal.
  std::string failure() const;

 private:
  RunningProgram(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  // False at the end of its output.
  bool read_some(std::chrono::milliseconds timeout);
  void take_lines();

  pid_t pid_;  // 0: it has ended
  UniqueFd socket_;
  int exit_code_ = -1;
  std::string unread_;  // the beginning of a line
  std::string other_;   // the end of what was printed beside values
  std::map<std::string, std::string> values_;
  std::map<std::string, int> times_printed_;
};

// Runs a program to its end. Errors: it cannot be started, it does not end within `timeout`, or it
// exits with another code than 0: then its failure().
Result<RunningProgram> run_to_end(const Command& command, std::chrono::milliseconds timeout);

}  // namespace mgpu::gpu_trial
