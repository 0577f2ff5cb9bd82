#include "plugin/cards/mps_spawn.h"

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

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Deadline = steady_clock::time_point;

constexpr milliseconds kReapPoll{2};
// A process that was killed ends at once, unless it hangs in the kernel.
constexpr milliseconds kReapTimeout{500};
constexpr int kFirstOtherDescriptor = 3;

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

// The environment of this process without variables of CUDA, and with `added` in place of variables
// of the same name. No variable occurs twice, since programs differ in which value they use.
std::vector<std::string> variables_with(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view name = name_of(*at);
    const bool replaced = std::ranges::find(added, name, name_of) != added.end();
    if (!replaced && !name.starts_with("CUDA_")) all.emplace_back(*at);
  }
  return all;
}

// The attributes and actions of posix_spawn, freed at the end.
class SpawnSettings {
 public:
  SpawnSettings(int in, int out) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, in, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, out, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstOtherDescriptor);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
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

std::string exit_text(int status, const std::string& output) {
  const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  return output.empty() ? how : fmt::format("{}, {}", how, in_quotes(output));
}

// --- input and output ----------------------------------------------------------------------------

Result<void> send_all(int socket, std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    pollfd ready{socket, POLLOUT, 0};
    if (::poll(&ready, 1, milliseconds_until(deadline)) == 0) {
      return error("it does not read its input");
    }
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // The output of a program that ends without reading says why.
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
  return error(fmt::format("its output has over {} bytes", bytes_max));
}

}  // namespace

Result<pid_t> spawn(const Program& program) {
  reap_killed(std::nullopt);
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  std::vector<std::string> variables = variables_with(program.variables);
  const SpawnSettings settings(program.in, program.out);
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

Result<std::string> run_with_input(Program program, const std::string& text, std::size_t bytes_max,
                                   milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return error(std::strerror(errno));
  }
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  program.in = program.out = theirs.number();
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

}  // namespace mgpu::plugin
