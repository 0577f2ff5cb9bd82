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

constexpr milliseconds kReapEvery{2};
// A process that was killed is gone at once, unless it hangs in the kernel.
constexpr milliseconds kReapPatience{500};
constexpr int kFirstOtherDescriptor = 3;

int until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

bool has_name(const std::string& variable, std::string_view name) {
  return variable.size() > name.size() && variable.starts_with(name) &&
         variable[name.size()] == '=';
}

// The environment of this process without variables of CUDA, and with `added` in place of variables
// of the same name. A variable must not occur twice: programs differ in which value they use.
std::vector<std::string> variables_with(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool replaced = std::any_of(added.begin(), added.end(),
                                      [&](const std::string& one) { return has_name(one, name); });
    if (!replaced && !name.starts_with("CUDA_")) all.emplace_back(variable);
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

// The status of a child that has ended; none while it lives, or where it is none of ours.
std::optional<int> ended(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, WNOHANG) == child ? std::optional(status) : std::nullopt;
}

std::optional<int> ended_until(pid_t child, Deadline deadline) {
  while (true) {
    if (const auto status = ended(child)) return status;
    if (until(deadline) == 0) return std::nullopt;
    ::poll(nullptr, 0, static_cast<int>(kReapEvery.count()));
  }
}

bool is_child(pid_t pid) {
  siginfo_t state{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &state, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Children that did not end when they were killed; they are looked at again at every start.
void reap_stubborn(std::optional<pid_t> another) {
  static Mutex mutex;
  static std::vector<pid_t> stubborn;
  const MutexLock lock(mutex);
  if (another) stubborn.push_back(*another);
  std::erase_if(stubborn, [](pid_t child) { return ended(child).has_value(); });
}

// --- a conversation ------------------------------------------------------------------------------

Result<void> say(int socket, std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    pollfd ready{socket, POLLOUT, 0};
    if (::poll(&ready, 1, until(deadline)) == 0) return error("it does not listen");
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // One that ends without listening says why.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) break;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return error(std::strerror(errno));
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(socket, SHUT_WR);
  return {};
}

Result<std::string> listen_to(int socket, std::size_t bytes_max, Deadline deadline) {
  std::string heard;
  char part[4096];
  while (heard.size() <= bytes_max) {
    pollfd ready{socket, POLLIN, 0};
    if (::poll(&ready, 1, until(deadline)) == 0) return error("no answer in time");
    const ssize_t count = ::recv(socket, part, sizeof part, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return heard;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return error(std::strerror(errno));
    if (count > 0) heard.append(part, static_cast<std::size_t>(count));
  }
  return error(fmt::format("its answer has over {} bytes", bytes_max));
}

Result<std::string> say_and_listen(int socket, const std::string& text, std::size_t bytes_max,
                                   Deadline deadline) {
  if (auto said = say(socket, text, deadline); !said) return said.error();
  return listen_to(socket, bytes_max, deadline);
}

std::string end_of(int status, const std::string& printed) {
  const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  return printed.empty() ? how : fmt::format("{}, {}", how, in_quotes(printed));
}

}  // namespace

Result<pid_t> spawn(const Program& program) {
  reap_stubborn(std::nullopt);
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

bool reap(pid_t child) {
  return ended(child).has_value();
}

void kill_session(pid_t leader) {
  const bool child = is_child(leader);
  ::kill(-leader, SIGKILL);
  ::kill(leader, SIGKILL);
  if (child && !ended_until(leader, steady_clock::now() + kReapPatience)) reap_stubborn(leader);
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
  auto answer = say_and_listen(ours.number(), text, bytes_max, deadline);
  const auto status = answer ? ended_until(*child, deadline) : std::nullopt;
  if (!status) {
    kill_session(*child);
    return answer ? error("it does not end") : answer.error();
  }
  if (*status == 0) return answer;
  return error(end_of(*status, *answer));
}

}  // namespace mgpu::plugin
