#include "extender/kubectl/port_forward.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "common/base/sentences.h"
#include "common/base/text.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kNotStarted = 127;  // as in shells
constexpr milliseconds kEndPoll{5};

std::vector<std::string> words_of(const PortForwardTarget& target) {
  std::vector<std::string> words = {"kubectl", "port-forward", "--address=127.0.0.1",
                                    "--namespace=" + target.pod.name_space};
  words.insert(words.end(), target.flags.begin(), target.flags.end());
  words.push_back("pod/" + target.pod.name);
  const std::string local = target.local == 0 ? "" : std::to_string(target.local);
  words.push_back(fmt::format("{}:{}", local, target.port));
  return words;
}

// Unlike _exit() it does not run what ThreadSanitizer does at an exit.
[[noreturn]] void end_child() {
  while (true) ::syscall(SYS_exit_group, kNotStarted);
}

// The child after fork(). Only calls that are safe there. posix_spawn() cannot ask for the signal,
// by which kubectl ends with a process that is killed.
[[noreturn]] void become(char* const* words, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) end_child();
  std::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(words[0], words);
  end_child();
}

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
}

std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

std::uint16_t port_in(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return 0;
    if (const std::uint16_t port = forwarded_port(text.substr(0, end))) return port;
    text.remove_prefix(end + 1);
  }
  return 0;
}

bool reaped(pid_t child) {
  return ::waitpid(child, nullptr, WNOHANG) != 0;
}

}  // namespace

std::uint16_t forwarded_port(std::string_view line) {
  constexpr std::string_view kBegin = "Forwarding from 127.0.0.1:";
  if (!line.starts_with(kBegin)) return 0;
  line.remove_prefix(kBegin.size());
  std::uint16_t port = 0;
  const auto [stop, failure] = std::from_chars(line.data(), line.data() + line.size(), port);
  const std::string_view rest(stop, static_cast<std::size_t>(line.data() + line.size() - stop));
  return failure == std::errc() && rest.starts_with(" -> ") ? port : 0;
}

Result<std::unique_ptr<PortForward>> PortForward::start(const PortForwardTarget& target,
                                                        milliseconds timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return error(fmt::format("kubectl port-forward: {}", std::strerror(errno)));
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  auto words = words_of(target);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return error(fmt::format("kubectl port-forward: {}", std::strerror(errno)));
  if (child == 0) become(pointers.data(), theirs.number(), parent);
  std::unique_ptr<PortForward> forward(new PortForward(child, std::move(ours)));
  theirs.close();
  auto listening = forward->wait_for_port(timeout);
  if (!listening) {
    return error(fmt::format("kubectl port-forward to pod {}: {}", to_string(target.pod),
                             listening.error().message));
  }
  return forward;
}

Result<void> PortForward::wait_for_port(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  std::string output;
  char part[4096];
  while (output.size() < kPortForwardOutputMax) {
    pollfd ready{output_.number(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, milliseconds_until(deadline));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return error(fmt::format("it does not listen within {} ms", timeout.count()));
    const ssize_t count = ::read(output_.number(), part, sizeof part);
    if (count < 0) return error(std::strerror(errno));
    if (count == 0 && output.empty()) {
      return error("it has ended without output; is kubectl in $PATH?");
    }
    if (count == 0) {
      const std::string_view line = cut_text(last_line(output), kKubectlErrorMax);
      return error(fmt::format("it has ended: \"{}\"", on_one_line(line)));
    }
    output.append(part, static_cast<std::size_t>(count));
    port_ = port_in(output);
    if (port_ != 0) return {};
  }
  return error(fmt::format("its output has over {} bytes without a port", kPortForwardOutputMax));
}

PortForward::~PortForward() {
  ::kill(child_, SIGTERM);
  const auto deadline = steady_clock::now() + kPortForwardEndTimeout;
  while (!reaped(child_)) {
    if (steady_clock::now() >= deadline) ::kill(child_, SIGKILL);
    ::poll(nullptr, 0, static_cast<int>(kEndPoll.count()));
  }
}

}  // namespace mgpu::kubectl
