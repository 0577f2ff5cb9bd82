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
#include "common/base/process.h"
#include "common/base/result.h"

namespace mgpu::gpu_trial {

struct Command {
  std::string path;
  std::vector<std::string> arguments;
  // In addition to that of this process, of which CUDA_* are removed.
  std::map<std::string, std::string> environment{};
};

class RunningProgram {
 public:
  // Error: the program cannot be started.
  static Result<RunningProgram> start(const Command& command);
  // Ends the input of the program, and kills it if it does not end soon. It is not killed at once,
  // because killing a client of MPS may affect other clients.
  ~RunningProgram();
  RunningProgram(RunningProgram&& other) noexcept;
  RunningProgram& operator=(RunningProgram&&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until the program prints `name` again, and returns the value. Error: the program has
  // ended or has printed nothing until the timeout; the message contains its explanation.
  Result<std::string> next(const std::string& name, std::chrono::milliseconds timeout);
  // Reads the available output without waiting.
  void read_available();
  void send_line(const std::string& line = "");
  // Ends the input of the program, so that it ends soon.
  void end_input();
  // Ends the input and reads until the program ends. Error: the program did not end within
  // `timeout` and was killed.
  Result<int> finish(std::chrono::milliseconds timeout);
  // Sends SIGKILL to the program and its child processes.
  void kill();
  // Whether the program runs.
  bool is_alive();

  // The last value of `name`; empty if none was printed.
  std::string value(const std::string& name) const;
  // The last value of `name` as a number; not set if it is none.
  std::optional<double> number(const std::string& name) const;
  // The end of the output other than values.
  std::string text() const { return other_ + unread_; }
  // Why the program ended: its own explanation, such as "cuInit: CUDA_ERROR_NO_DEVICE", or else the
  // last line that is no value, or else its exit code or signal.
  std::string failure() const;

 private:
  RunningProgram(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  // False at the end of its output.
  bool read_some(std::chrono::milliseconds timeout);
  void take_lines();

  pid_t pid_;  // 0 after the program has ended
  UniqueFd socket_;
  int exit_code_ = -1;
  std::string unread_;  // the beginning of a line
  std::string other_;   // the end of the output other than values
  std::map<std::string, std::string> values_;
  std::map<std::string, int> times_printed_;
};

// Runs a program to its end. Errors: it cannot be started, it does not end within `timeout`, or its
// exit code is not 0; the message is then its failure().
Result<RunningProgram> run_to_end(const Command& command, std::chrono::milliseconds timeout);

// A CUDA context takes a second if the card must be initialized.
inline constexpr std::chrono::milliseconds kProgramTimeout{45'000};
// Starts a program and waits until it has printed ready=1. Error: the failure of the program.
Result<RunningProgram> start_and_wait(const Command& command);

}  // namespace mgpu::gpu_trial
