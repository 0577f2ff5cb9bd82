#include "test/gpu/driver/mps.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "test/gpu/driver/process.h"

namespace mgpu::fake_gpu {
namespace {

constexpr int kExclusiveProcess = 3;  // nvmlComputeMode_t

// Of this process. It is never closed before the end.
int connection = -1;
int refusal = kSuccess;
std::uint64_t broken_before = 0;
// Of its namespace in a daemon of v3; 0: none.
double percent_of_namespace = 0;
std::uint64_t mib_of_namespace = 0;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

int connect_to_daemon() {
  const std::string pipe = variable("CUDA_MPS_PIPE_DIRECTORY");
  const std::string path = pipe + "/control";
  sockaddr_un address{};
  if (pipe.empty() || path.size() >= sizeof address.sun_path) return -1;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct statvfs mount {};
  if (has_fault("no-read-only-pipe") && ::statvfs(pipe.c_str(), &mount) == 0 &&
      (mount.f_flag & ST_RDONLY) != 0) {
    return -1;
  }
  const int opened = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (opened < 0) return -1;
  if (::connect(opened, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return opened;
  }
  ::close(opened);
  return -1;
}

// A packet without its end of line.
std::string read_line(int from) {
  char packet[64];
  ssize_t count = 0;
  do {
    count = ::recv(from, packet, sizeof packet, 0);
  } while (count < 0 && errno == EINTR);
  std::string line(packet, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

// The last line of the file counts.
bool is_exclusive(const Machine& machine, int card) {
  if (has_fault("no-exclusive")) return false;
  std::ifstream modes(machine.settings_file("mode"));
  std::string uuid;
  int last = 0;
  for (int mode = 0; modes >> uuid >> mode;) {
    if (uuid == machine.card(card).uuid) {
      last = has_fault("stays-exclusive") ? std::max(last, mode) : mode;
    }
  }
  return last == kExclusiveProcess;
}

// "0=1024M,1=2G" limits card 0 to 1 GiB, with the context.
std::optional<std::uint64_t> asked_limit(int card) {
  const std::string mine = std::to_string(card) + "=";
  std::istringstream entries(variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (!entry.starts_with(mine)) continue;
    char* unit = nullptr;
    const std::uint64_t amount = std::strtoull(entry.c_str() + mine.size(), &unit, 10);
    if (*unit == 'M') return amount * kMiB;
    if (*unit == 'G') return amount * kMiB * 1024;
  }
  return std::nullopt;
}

// A program can ask for less than its namespace has.
std::optional<std::uint64_t> mps_limit(int card) {
  if (!is_mps_client()) return std::nullopt;
  const auto asked = asked_limit(card);
  if (mib_of_namespace == 0) return asked;
  return std::min(asked.value_or(mib_of_namespace * kMiB), mib_of_namespace * kMiB);
}

// What the limit of the cgroup of this process leaves for all that it has. NVML writes the limits:
// "<uuid> <cgroup> <soft> <hard>", of which the last one counts. cgroup.procs has the pids.
std::optional<std::uint64_t> cgroup_limit(Machine& machine, int card) {
  const std::string file = machine.settings_file("limits");
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;  // much faster than to open nothing
  std::ifstream limits(file);
  std::map<std::string, std::uint64_t> hard_of;
  std::string uuid;
  std::string cgroup;
  std::uint64_t soft = 0;
  for (std::uint64_t hard = 0; limits >> uuid >> cgroup >> soft >> hard;) {
    if (uuid == machine.card(card).uuid) hard_of[cgroup] = hard;
  }
  for (const auto& [path, hard] : hard_of) {
    std::ifstream processes(path + "/cgroup.procs");
    std::set<std::uint64_t> pids;
    for (std::uint64_t pid = 0; processes >> pid;) pids.insert(pid);
    const bool mine = pids.erase(static_cast<std::uint64_t>(::getpid())) != 0;
    if (!mine || hard == std::numeric_limits<std::uint64_t>::max()) continue;
    std::uint64_t others = 0;
    for (const ProcessUse& use : machine.processes(card)) {
      if (pids.contains(use.pid)) others += use.bytes;
    }
    return hard - std::min(others, hard);
  }
  return std::nullopt;
}

}  // namespace

void join_mps() {
  if (has_fault("no-mps")) return;
  const int opened = connect_to_daemon();
  if (opened < 0) return;
  static_cast<void>(read_line(opened));  // the greeting
  const std::string hello = "client " + std::to_string(process().machine->pid()) + "\n";
  // If this fails, there is no answer either.
  static_cast<void>(::send(opened, hello.data(), hello.size(), MSG_NOSIGNAL));
  const std::string answer = read_line(opened);
  if (answer.starts_with("ok")) {
    std::istringstream(answer.substr(2)) >> percent_of_namespace >> mib_of_namespace;
    connection = opened;
    process().machine->become_mps_client();
    broken_before = process().machine->broken_clients();
    return;
  }
  ::close(opened);
  refusal = answer == "full"    ? kMpsMaxClientsReached
            : answer == "fault" ? kMpsServerNotReady
                                : kMpsConnectionFailed;
}

bool is_mps_client() {
  return connection >= 0;
}

bool has_lost_mps() {
  return is_mps_client() && !wait_connected(0);
}

int failure_of_mps() {
  if (!is_mps_client()) return kSuccess;
  if (has_lost_mps()) return kMpsRpcFailure;
  const bool is_ended =
      has_fault("shared-fault") && process().machine->broken_clients() != broken_before;
  return is_ended ? kIllegalAddress : kSuccess;
}

void leave_mps() {
  if (is_mps_client()) ::close(connection);
  connection = -1;
}

// Without MPS the descriptor is negative, and poll only waits.
bool wait_connected(std::int64_t nanoseconds) {
  const std::int64_t end = now() + nanoseconds;
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(end - now(), 0);
    const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    pollfd hung_up{connection, 0, 0};
    const int ready = ::ppoll(&hung_up, 1, &timeout, nullptr);
    if (ready >= 0) return ready == 0;
    if (errno != EINTR) return true;
  }
}

int refuse_context(int card) {
  if (refusal != kSuccess) return refusal;
  if (is_mps_client()) return has_lost_mps() ? kMpsRpcFailure : kSuccess;
  return is_exclusive(*process().machine, card) ? kDeviceUnavailable : kSuccess;
}

double percent_of_card() {
  const double asked = std::strtod(variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").c_str(), nullptr);
  if (!is_mps_client() || has_fault("no-share")) return 100;
  const double most = percent_of_namespace > 0 ? percent_of_namespace : 100;
  return asked > 0 ? std::min(asked, most) : most;
}

std::optional<std::uint64_t> left_of_limits(int card) {
  if (has_fault("no-limit")) return std::nullopt;
  Machine& machine = *process().machine;
  const auto mps = mps_limit(card);
  const auto cgroup = cgroup_limit(machine, card);
  if (!mps && !cgroup) return std::nullopt;
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = std::min(mps.value_or(kNone), cgroup.value_or(kNone));
  return limit - std::min(machine.taken(card), limit);
}

bool may_take(int card, std::uint64_t bytes) {
  if (has_fault("limit-together") && bytes > 1024 * kMiB) {
    const int first = ::open("/tmp/fake-gpu-limit", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (first < 0) return false;
    ::close(first);
  }
  const auto left = left_of_limits(card);
  return !left || bytes <= *left;
}

}  // namespace mgpu::fake_gpu
