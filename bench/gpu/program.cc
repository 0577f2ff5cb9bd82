#include "bench/gpu/program.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/text.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A longer line is no value. Only the end of other output is kept.
constexpr std::size_t kLineBytesMax = 16 * 1024;
constexpr std::size_t kOtherBytesMax = 4 * 1024;
// No program prints as many names.
constexpr std::size_t kValuesMax = 256;
// Time in which a program without input frees its context and ends.
constexpr milliseconds kEndTimeout{2'000};
// The exit code of a program that a signal has ended is this plus the number of the signal, as in a
// shell.
constexpr int kSignalExit = 128;

milliseconds left_until(steady_clock::time_point deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()), milliseconds(0));
}

// Whether a text can be the name of a value, such as "largest_mib". Lines of runc's log begin with
// "time=" and are no values.
bool is_value_name(std::string_view name) {
  return !name.empty() && name != "time" && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
}

double in_seconds(milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Result<RunningProgram> RunningProgram::start(const Command& command) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  UniqueFd own(pair[0]);
  const UniqueFd other(pair[1]);
  std::vector<std::string> variables;
  for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
  const auto pid = spawn({.path = command.path,
                          .arguments = command.arguments,
                          .variables = variables,
                          .in = other.number(),
                          .out = other.number(),
                          .removed_prefix = "CUDA_"});
  if (!pid) return pid.error();
  return RunningProgram(*pid, std::move(own));
}

RunningProgram::~RunningProgram() {
  if (is_alive()) static_cast<void>(finish(kEndTimeout));
}

RunningProgram::RunningProgram(RunningProgram&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      socket_(std::move(other.socket_)),
      exit_code_(other.exit_code_),
      unread_(std::move(other.unread_)),
      other_(std::move(other.other_)),
      values_(std::move(other.values_)),
      times_printed_(std::move(other.times_printed_)) {}

// --- output of the program -----------------------------------------------------------------------

bool RunningProgram::read_some(milliseconds timeout) {
  pollfd ready{socket_.number(), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return true;
  std::array<char, 4096> part{};
  const ssize_t count = ::recv(socket_.number(), part.data(), part.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) return false;
  unread_.append(part.data(), static_cast<std::size_t>(count));
  take_lines();
  return true;
}

void RunningProgram::take_lines() {
  for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || !is_value_name(line.substr(0, equals))) {
      other_ += line + "\n";
      if (other_.size() > kOtherBytesMax) other_.erase(0, other_.size() - kOtherBytesMax);
      continue;
    }
    const std::string name = line.substr(0, equals);
    if (values_.size() >= kValuesMax && !values_.contains(name)) continue;
    values_[name] = line.substr(equals + 1);
    ++times_printed_[name];
  }
  if (unread_.size() > kLineBytesMax) unread_.clear();
}

void RunningProgram::read_available() {
  constexpr int kPartsMax = 64;
  for (int i = 0; i < kPartsMax && read_some(milliseconds(0)); ++i) {
  }
}

Result<std::string> RunningProgram::next(const std::string& name, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const int printed_before = times_printed_[name];
  while (times_printed_[name] == printed_before) {
    const bool more = read_some(left_until(deadline));
    if (times_printed_[name] != printed_before) break;
    if (!more) {
      while (is_alive() && steady_clock::now() < deadline) ::poll(nullptr, 0, 2);
      return error(failure());
    }
    if (steady_clock::now() >= deadline) {
      return error(fmt::format("it did not print {} within {} s", name, in_seconds(timeout)));
    }
  }
  return values_[name];
}

std::string RunningProgram::value(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second;
}

std::optional<double> RunningProgram::number(const std::string& name) const {
  return parse_number<double>(value(name));
}

std::string RunningProgram::failure() const {
  const std::string call = value("failed");
  if (!call.empty()) return call + ": " + value("error");
  std::string lines = text();
  while (lines.ends_with('\n')) lines.pop_back();
  if (!lines.empty()) return in_quotes(lines.substr(lines.rfind('\n') + 1));
  if (exit_code_ >= kSignalExit) return fmt::format("signal {}", exit_code_ - kSignalExit);
  return fmt::format("exit code {}", exit_code_);
}

// --- input and end of the program ----------------------------------------------------------------

void RunningProgram::end_input() {
  ::shutdown(socket_.number(), SHUT_WR);
}

void RunningProgram::send_line(const std::string& line) {
  const std::string text = line + "\n";
  ::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL);
}

bool RunningProgram::is_alive() {
  int status = 0;
  if (pid_ == 0) return false;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalExit + WTERMSIG(status);
  pid_ = 0;
  return false;
}

Result<int> RunningProgram::finish(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  end_input();
  while (steady_clock::now() < deadline && read_some(left_until(deadline))) {
  }
  while (is_alive() && steady_clock::now() < deadline) ::poll(nullptr, 0, 2);
  if (pid_ == 0) return exit_code_;
  kill();
  return error(fmt::format("it did not end within {} s", in_seconds(timeout)));
}

void RunningProgram::kill() {
  if (is_alive()) kill_session(std::exchange(pid_, 0));
}

Result<RunningProgram> run_to_end(const Command& command, milliseconds timeout) {
  auto program = RunningProgram::start(command);
  if (!program) return program.error();
  const auto code = program->finish(timeout);
  if (!code) return code.error();
  if (*code != 0) return error(program->failure());
  return program;
}

Result<RunningProgram> start_and_wait(const Command& command) {
  auto program = RunningProgram::start(command);
  if (!program) return program.error();
  const auto ready = program->next("ready", kProgramTimeout);
  if (!ready) return ready.error();
  return program;
}

}  // namespace mgpu::gpu_trial
