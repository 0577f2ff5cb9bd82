#include "common/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Deadline = steady_clock::time_point;

constexpr milliseconds kReapPoll{2};
// A process that was killed ends at once, unless it hangs in the kernel.
constexpr milliseconds kReapTimeout{500};
constexpr int kFirstOtherDescriptor = 3;
// How often run_for_output() checks whether it was cancelled and whether the program has ended.
constexpr milliseconds kOutputPoll{20};

// As poll() takes it.
int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// The environment of this process without the variables to remove, and with the added ones in place
// of variables of the same name. No variable occurs twice, since programs differ in which value
// they use.
std::vector<std::string> variables_of(const ProgramCall& program) {
  const std::vector<std::string>& added = program.variables;
  std::vector<std::string> all = added;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view name = name_of(*at);
    const bool replaced = std::ranges::find(added, name, name_of) != added.end();
    const bool removed =
        !program.removed_prefix.empty() && name.starts_with(program.removed_prefix);
    if (!replaced && !removed) all.emplace_back(*at);
  }
  return all;
}

// The attributes and actions of posix_spawn, freed at the end.
class SpawnSettings {
 public:
  explicit SpawnSettings(const ProgramCall& program) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, program.in, STDIN_FILENO);
    // Before standard output is replaced, since `err` may be that of this process.
    const int err = program.err < 0 ? program.out : program.err;
    ::posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, program.out, STDOUT_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstOtherDescriptor);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    const int session = program.new_session ? POSIX_SPAWN_SETSID : 0;
    ::posix_spawnattr_setflags(
        &attributes_, static_cast<short>(session | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// --- programs in another root --------------------------------------------------------------------

// Why a child did not become its program.
struct StartFailure {
  bool at_chroot = false;
  int error = 0;
};

// Runs in the child of a process with threads, so that it may call only functions that are safe in
// signal handlers. Returns only after a failure.
StartFailure become(const ProgramCall& program, char* const* words, char* const* variables,
                    int& failures) {
  if (program.new_session) ::setsid();
  ::dup2(program.in, STDIN_FILENO);
  ::dup2(program.err < 0 ? program.out : program.err, STDERR_FILENO);
  ::dup2(program.out, STDOUT_FILENO);
  ::dup2(failures, kFirstOtherDescriptor);
  failures = kFirstOtherDescriptor;
  ::closefrom(kFirstOtherDescriptor + 1);
  ::fcntl(kFirstOtherDescriptor, F_SETFD, FD_CLOEXEC);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chroot(program.root.c_str()) != 0 || ::chdir("/") != 0) return {true, errno};
  ::execve(words[0], words, variables);
  return {false, errno};
}

// posix_spawn() cannot change the root.
Result<pid_t> spawn_in_root(const ProgramCall& program, char* const* words,
                            char* const* variables) {
  int pair[2];
  if (::pipe2(pair, O_CLOEXEC) != 0) return error(std::strerror(errno));
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    int failures = theirs.number();
    const StartFailure failure = become(program, words, variables, failures);
    const ssize_t ignored = ::write(failures, &failure, sizeof failure);
    ::_exit(ignored < 0 ? 126 : 127);
  }
  if (child < 0) {
    return error(fmt::format("cannot start {}: {}", program.path, std::strerror(errno)));
  }
  theirs.close();
  StartFailure failure;
  ssize_t count = 0;
  // Ends without data when the program is started.
  do {
    count = ::read(ours.number(), &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return error(fmt::format("cannot start {} with the root {}: {}{}", program.path, program.root,
                           failure.at_chroot ? "chroot: " : "", std::strerror(failure.error)));
}

// --- the ends of children ------------------------------------------------------------------------

std::optional<int> reap_until(pid_t child, Deadline deadline) {
  while (true) {
    if (const auto status = reap(child)) return status;
    if (milliseconds_until(deadline) == 0) return std::nullopt;
    ::poll(nullptr, 0, static_cast<int>(kReapPoll.count()));
  }
}

// Reaps children that did not end soon after they were killed. `another` is added to them.
void reap_killed(std::optional<pid_t> another) {
  static Mutex mutex;
  static std::vector<pid_t> killed;
  const MutexLock lock(mutex);
  if (another) killed.push_back(*another);
  std::erase_if(killed, [](pid_t child) { return reap(child).has_value(); });
}

std::string exit_text(int status) {
  return WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                           : fmt::format("signal {}", WTERMSIG(status));
}

std::string exit_text(int status, const std::string& output) {
  const std::string how = exit_text(status);
  return output.empty() ? how : fmt::format("{}, {}", how, in_quotes(output));
}

// --- input and output ----------------------------------------------------------------------------

Error too_much(std::size_t bytes_max) {
  return error(fmt::format("its output has over {} bytes", bytes_max));
}

Result<void> send_all(int socket, std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    pollfd ready{socket, POLLOUT, 0};
    if (::poll(&ready, 1, milliseconds_until(deadline)) == 0) {
      return error("it does not read its input");
    }
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // If the program ends without reading, its output has the reason.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) break;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return error(std::strerror(errno));
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(socket, SHUT_WR);
  return {};
}

Result<std::string> receive_all(int socket, std::size_t bytes_max, Deadline deadline) {
  std::string output;
  char part[4096];
  while (output.size() <= bytes_max) {
    pollfd ready{socket, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds_until(deadline)) == 0) return error("no response in time");
    const ssize_t count = ::recv(socket, part, sizeof part, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return output;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return error(std::strerror(errno));
    if (count > 0) output.append(part, static_cast<std::size_t>(count));
  }
  return too_much(bytes_max);
}

// One of the outputs of a program: our end of a socket, and what has arrived.
class Output {
 public:
  // Returns the end for the program.
  Result<UniqueFd> open() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return error(std::strerror(errno));
    }
    ours_ = UniqueFd(pair[0]);
    return UniqueFd(pair[1]);
  }
  // Reads what has arrived. False: more than `bytes_max`.
  bool read(std::size_t bytes_max) {
    char part[4096];
    while (ours_.is_open() && text_.size() <= bytes_max) {
      const ssize_t count = ::recv(ours_.number(), part, sizeof part, MSG_DONTWAIT);
      if (count > 0) {
        text_.append(part, static_cast<std::size_t>(count));
      } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        ours_.close();
      } else if (errno == EAGAIN) {
        break;
      }
    }
    return text_.size() <= bytes_max;
  }
  // Negative once it has ended, as poll() ignores it.
  int socket() const { return ours_.is_open() ? ours_.number() : -1; }
  std::string take() { return std::move(text_); }

 private:
  UniqueFd ours_;
  std::string text_;
};

// The wait status of the child, once it has ended and its output was read. Another process may
// still have its output open. After an error the child still runs.
Result<int> follow(pid_t child, Output& out, Output& err, std::size_t bytes_max, Deadline deadline,
                   const std::atomic<bool>& cancelled) {
  while (true) {
    const auto status = reap(child);
    const bool fits = out.read(bytes_max) && err.read(bytes_max);
    if (status) return *status;
    if (!fits) return too_much(bytes_max);
    if (cancelled) return error("it was cancelled");
    if (milliseconds_until(deadline) == 0) return error("it does not end in time");
    const bool open = out.socket() >= 0 || err.socket() >= 0;
    pollfd ready[] = {{out.socket(), POLLIN, 0}, {err.socket(), POLLIN, 0}};
    const auto wait = open ? kOutputPoll : kReapPoll;
    ::poll(ready, 2, std::min(static_cast<int>(wait.count()), milliseconds_until(deadline)));
  }
}

}  // namespace

Result<pid_t> spawn(const ProgramCall& program) {
  reap_killed(std::nullopt);
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  std::vector<std::string> variables = variables_of(program);
  if (!program.root.empty()) {
    return spawn_in_root(program, pointers(words).data(), pointers(variables).data());
  }
  const SpawnSettings settings(program);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, program.path.c_str(), settings.actions(), settings.attributes(),
                     pointers(words).data(), pointers(variables).data());
  if (failed == 0) return child;
  return error(fmt::format("cannot start {}: {}", program.path, std::strerror(failed)));
}

std::optional<int> reap(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, WNOHANG) == child ? std::optional(status) : std::nullopt;
}

void kill_session(pid_t leader) {
  siginfo_t state{};
  const bool is_child =
      ::waitid(P_PID, static_cast<id_t>(leader), &state, WEXITED | WNOHANG | WNOWAIT) == 0;
  ::kill(-leader, SIGKILL);
  ::kill(leader, SIGKILL);
  if (is_child && !reap_until(leader, steady_clock::now() + kReapTimeout)) reap_killed(leader);
}

void kill_child(pid_t child) {
  ::kill(child, SIGKILL);
  if (!reap_until(child, steady_clock::now() + kReapTimeout)) reap_killed(child);
}

Result<std::string> run_with_input(ProgramCall program, const std::string& text,
                                   std::size_t bytes_max, milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return error(std::strerror(errno));
  }
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  program.in = program.out = program.err = theirs.number();
  const auto child = spawn(program);
  if (!child) return child.error();
  theirs.close();
  const auto sent = send_all(ours.number(), text, deadline);
  auto output =
      sent ? receive_all(ours.number(), bytes_max, deadline) : Result<std::string>(sent.error());
  const auto status = output ? reap_until(*child, deadline) : std::nullopt;
  if (!status) {
    kill_session(*child);
    return output ? error("it does not end in time") : output.error();
  }
  if (*status == 0) return output;
  return error(exit_text(*status, *output));
}

Result<ProgramResult> run_for_output(ProgramCall program, std::size_t bytes_max,
                                     milliseconds timeout, const std::atomic<bool>& cancelled) {
  const Deadline deadline = steady_clock::now() + timeout;
  Output out;
  Output err;
  auto their_out = out.open();
  if (!their_out) return their_out.error();
  program.out = their_out->number();
  UniqueFd their_err;
  if (program.err < 0) {
    auto opened = err.open();
    if (!opened) return opened.error();
    their_err = std::move(*opened);
    program.err = their_err.number();
  }
  const auto child = spawn(program);
  if (!child) return child.error();
  their_out->close();
  their_err.close();
  const auto status = follow(*child, out, err, bytes_max, deadline, cancelled);
  if (status) {
    ProgramResult result{*status == 0 ? "" : exit_text(*status), out.take(), err.take()};
    if (std::max(result.out.size(), result.err.size()) > bytes_max) return too_much(bytes_max);
    return result;
  }
  if (program.new_session) {
    kill_session(*child);
  } else {
    kill_child(*child);
  }
  return status.error();
}

}  // namespace mgpu
