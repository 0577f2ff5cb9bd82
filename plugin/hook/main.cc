// mgpu-set-limits: the createRuntime hook of containers whose shares the driver or MPS enforces.
//
//   mgpu-set-limits SOCKET ALLOCATION    with the state of the container as JSON in its input
//   mgpu-set-limits --mps SOCKET
//   mgpu-set-limits --version            prints the version
//
// It asks the device plugin, which listens on SOCKET, to set the memory limits of the container,
// and succeeds if the plugin says that they are set. With --mps it succeeds if an MPS daemon greets
// it on SOCKET: without one, CUDA runs outside of MPS and without limits, and kubelet may start a
// container without asking the plugin. Otherwise it prints one sentence and fails, so that the
// container does not start.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "plugin/hook/limit_protocol.h"

namespace mgpu {

extern const char* const kBuildCommit;  // as in common/base/version.h

}  // namespace mgpu

namespace {

using mgpu::plugin::LimitRequest;
using Clock = std::chrono::steady_clock;

// A state has the annotations of the container, for which Kubernetes permits 256 KiB.
constexpr std::size_t kStateBytesMax = std::size_t{4} << 20;
// What NVIDIA's daemon sends first is "OUTBHELL", seen with 555.58.02. That of v3 may send another
// word, so that only its size is expected.
constexpr std::size_t kGreetingBytes = 8;

// Returns whether the descriptor is ready before the deadline.
bool wait_for(int descriptor, short event, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{descriptor, event, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

// Everything up to the end; none if that is not reached in time, or after `bytes_max` bytes.
std::optional<std::string> read_all(int descriptor, std::size_t bytes_max,
                                    Clock::time_point deadline) {
  std::string text;
  char part[4096];
  while (text.size() <= bytes_max && wait_for(descriptor, POLLIN, deadline)) {
    const ssize_t count = ::read(descriptor, part, sizeof part);
    if (count == 0) return text;
    if (count < 0 && errno != EINTR && errno != EAGAIN) return std::nullopt;
    if (count > 0) text.append(part, static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

// The member "pid" of the state; none if it is not a positive number.
std::optional<std::int64_t> pid_of(const std::string& state) {
  const auto json = nlohmann::json::parse(state, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto pid = json.find("pid");
  if (pid == json.end() || !pid->is_number_integer()) return std::nullopt;
  const auto number = pid->get<std::int64_t>();
  return number > 0 ? std::optional(number) : std::nullopt;
}

// Returns a connection, or -1 with errno. It does not wait: a full queue is an error.
int connect_to(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  const int connection = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return -1;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return connection;
  }
  const int why = errno;
  ::close(connection);
  errno = why;
  return -1;
}

// The outcome of one request.
struct Outcome {
  std::string problem;  // why the container must not start; empty: it may
  bool answered = false;
};

Outcome ask_once(const std::string& path, const LimitRequest& request, Clock::time_point deadline) {
  const int connection = connect_to(path, SOCK_STREAM);
  if (connection < 0)
    return {"cannot reach mgpu-device-plugin at " + path + ": " + std::strerror(errno)};
  // It is shorter than the buffer of a new connection.
  const std::string text = mgpu::plugin::format_limit_request(request);
  const bool sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  const auto reply =
      sent ? read_all(connection, mgpu::plugin::kLimitReplyBytesMax, deadline) : std::nullopt;
  ::close(connection);
  if (reply == mgpu::plugin::kLimitsSet) return {"", true};
  if (!reply || reply->empty()) return {"mgpu-device-plugin at " + path + " does not answer"};
  return {reply->substr(0, reply->find('\n')), true};
}

// The daemon greets each connection; one that serves another program does so later.
Outcome greet_once(const std::string& path, Clock::time_point deadline) {
  const int connection = connect_to(path, SOCK_SEQPACKET);
  if (connection < 0) return {"cannot reach its daemon at " + path + ": " + std::strerror(errno)};
  char greeting[kGreetingBytes];
  const bool greeted = wait_for(connection, POLLIN, deadline) &&
                       ::recv(connection, greeting, sizeof greeting, 0) == std::ssize(greeting);
  ::close(connection);
  if (greeted) return {"", true};
  return {"its daemon at " + path + " does not answer"};
}

// Returns why the container must not start; empty if it may. The plugin or the daemon may be
// starting: a container that does not start is not started again if its pod has restartPolicy
// Never. To ask twice does no harm.
template <class AskOnce>
std::string ask(const AskOnce& ask_once, Clock::time_point deadline) {
  while (true) {
    const Outcome outcome = ask_once();
    const auto again = Clock::now() + std::chrono::milliseconds(mgpu::plugin::kLimitHookRetryMs);
    if (outcome.answered || again >= deadline) return outcome.problem;
    std::this_thread::sleep_until(again);
  }
}

std::string set_limits(int argc, char** argv) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(mgpu::plugin::kLimitHookMs);
  if (argc != 3) return "usage: mgpu-set-limits SOCKET ALLOCATION";
  const auto state = read_all(STDIN_FILENO, kStateBytesMax, deadline);
  if (!state) return "the state of the container cannot be read from the input";
  const auto pid = pid_of(*state);
  if (!pid) return "the state of the container has no pid";
  const LimitRequest request{argv[2], *pid};
  return ask([&] { return ask_once(argv[1], request, deadline); }, deadline);
}

std::string check_mps(const std::string& path) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(mgpu::plugin::kLimitHookMs);
  // Some runtimes fail if nobody reads the state.
  static_cast<void>(read_all(STDIN_FILENO, kStateBytesMax, deadline));
  return ask([&] { return greet_once(path, deadline); }, deadline);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("mgpu-set-limits %s (commit %s)\n", MGPU_VERSION, mgpu::kBuildCommit);
    return 0;
  }
  const bool mps = argc == 3 && argv[1] == mgpu::plugin::kMpsHookArgument;
  const std::string problem = mps ? check_mps(argv[2]) : set_limits(argc, argv);
  if (problem.empty()) return 0;
  std::fprintf(stderr, "mgpu-set-limits: %s: %s\n",
               mps ? "MPS does not run" : "GPU memory not limited", problem.c_str());
  return 1;
}
