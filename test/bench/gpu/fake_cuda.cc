// A stand-in for libcuda.so.1 with one device. The processor computes its kernels, or sleeps for
// their duration. The file "behaviour" in the folder MGPU_FAKE_CUDA, which is read at every call,
// has these lines:
//
//   memory <MiB>               memory of the device; default 143771
//   context <MiB>              memory of a context without MPS; default 500
//   mps_context <MiB>          memory of a context with MPS; default 30
//   name <text>                name of the device
//   uuid <GPU-...>             UUID of the device
//   no-limit                   neither MPS nor the driver enforces a memory limit
//   limit-together             in a container only the first allocation of over 1 GiB succeeds, as
//                              if the limit counted for all its processes
//   no-share                   MPS does not enforce the thread percentage of a client
//   no-mps                     programs run outside of MPS, as if there were no daemon
//   no-read-only-pipe          clients of MPS fail if their pipe directory is read-only
//   no-exclusive               EXCLUSIVE_PROCESS, which fake_nvml.cc sets, has no effect
//   stays-exclusive            another mode that it sets afterwards has none
//   hang <function>            the function hangs while the file has this line
//   fail <function> <code>     the function returns this code
//   crash <function>           the function ends the program with SIGSEGV
//   wrong-sum                  the kernel "vector_add" computes wrong sums
//
// A function has its exported name, with or without "_v2".
//
// Every process with a context writes "<bytes> <compute|mps>" to the file "process.<pid>" in that
// folder, and removes the file at its end. fake_nvml.cc lists these processes. The running
// processes with such a file share the device's memory. If there is no folder, or if it cannot be
// written, a process has the whole device.
//
// A process is a client of MPS if the folder CUDA_MPS_PIPE_DIRECTORY has a socket "control" that
// accepts connections, see fake_mps_control.cc. It sends "client <pid>", reads "ok", "full" or
// "fault", and keeps the connection open. Without a connection it runs without MPS and its limits,
// as CUDA does. Only the entry of device 0 in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is read.
//
// Two kernels are implemented: "vector_add" (a, b, c, n), and "spin" (out, iterations), which
// computes nothing and takes longer for a smaller thread percentage. A launch of "spin" only adds
// its duration, and cuCtxSynchronize waits for it. Allocations of more than 16 MiB have no memory:
// data that is copied there is lost, and zeros are read.
//
// The library is linked with -static-libstdc++ -static-libgcc, so that it needs only a C library.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/gpu/cuda/driver_api.h"
#include "test/bench/gpu/fake_cuda_errors.h"

namespace mgpu::gpu_trial::cuda {

struct ContextHandle {};
struct ModuleHandle {
  std::string image;
};
struct FunctionHandle {
  std::string name;
};

namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr int kDriverVersion = 13000;
constexpr int kMultiprocessors = 132;
constexpr int kMultiprocessorsMin = 2;
constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;
// Larger allocations have no memory.
constexpr std::size_t kBackedBytesMax = 16 * kBytesPerMiB;
constexpr DevicePointer kFirstAddress = 0x7f00'0000'0000;
constexpr std::size_t kAlignment = 512;
// Duration of one block and one iteration of "spin": 8448 blocks of 10000 iterations take 5 ms.
constexpr double kSpinNanoseconds = 5e6 / (8448.0 * 10000.0);
constexpr char kDefaultUuid[] = "GPU-6d677075-0000-4000-8000-000000000001";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string state_folder() {
  return variable("MGPU_FAKE_CUDA");
}

// --- behaviour -----------------------------------------------------------------------------------

std::vector<Words> behaviours() {
  std::vector<Words> lines;
  std::ifstream file(state_folder() + "/behaviour");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Words read;
    for (std::string word; words >> word;) read.push_back(word);
    if (!read.empty()) lines.push_back(read);
  }
  return lines;
}

// The text after `kind` in its line; not set if there is no such line.
std::optional<std::string> behaviour(const std::string& kind) {
  for (const Words& line : behaviours()) {
    if (line[0] != kind) continue;
    std::string text;
    for (std::size_t i = 1; i < line.size(); ++i) text += (i > 1 ? " " : "") + line[i];
    return text;
  }
  return std::nullopt;
}

std::uint64_t bytes_said(const std::string& kind, std::uint64_t otherwise_mib) {
  const auto text = behaviour(kind);
  const std::uint64_t mib = text ? std::strtoull(text->c_str(), nullptr, 10) : otherwise_mib;
  return mib * kBytesPerMiB;
}

std::uint64_t device_bytes() {
  return bytes_said("memory", 143771);
}

// The text in the line of this kind about `function`.
std::optional<Words> line_about(const std::string& kind, const std::string& function) {
  for (const Words& line : behaviours()) {
    if (line[0] != kind || line.size() < 2) continue;
    if (line[1] == function || line[1] + "_v2" == function) return line;
  }
  return std::nullopt;
}

// Every function calls this first.
int trouble(const std::string& function) {
  while (line_about("hang", function)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (line_about("crash", function)) ::raise(SIGSEGV);
  const auto line = line_about("fail", function);
  return line && line->size() > 2 ? static_cast<int>(std::strtol((*line)[2].c_str(), nullptr, 10))
                                  : kSuccess;
}

// --- the process ---------------------------------------------------------------------------------

struct FreeMemory {
  void operator()(unsigned char* memory) const { std::free(memory); }
};

struct Allocation {
  std::size_t bytes = 0;
  // Allocated at its first use, so that unused allocations need no memory.
  std::unique_ptr<unsigned char, FreeMemory> memory;
};

// The process ID on the node. In a container of the trial the node's /proc is beside the folder.
pid_t node_pid() {
  std::error_code none;
  const auto self = std::filesystem::read_symlink(state_folder() + "/../proc/self", none);
  const auto pid = static_cast<pid_t>(std::strtol(self.c_str(), nullptr, 10));
  return pid > 0 ? pid : ::getpid();
}

// The state of the driver in this process.
struct Process {
  Process() = default;
  ~Process() {
    if (!use_file.empty()) ::unlink(use_file.c_str());
    if (connection >= 0) ::close(connection);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool is_client() const { return connection >= 0; }

  std::mutex mutex;
  bool initialized = false;
  int connection = -1;  // the connection of a client to the server of MPS
  int refusal = 0;      // the error if MPS did not accept this process
  int broken = 0;       // the error of all later calls
  bool has_context = false;
  ContextHandle context;
  std::uint64_t used = 0;  // bytes, including the context
  std::string use_file;
  double pending_ns = 0;  // total duration of the launched kernels
  DevicePointer next_address = kFirstAddress;
  std::map<DevicePointer, Allocation> allocations;
  std::list<ModuleHandle> modules;
  std::list<FunctionHandle> functions;
};

Process& process() {
  static Process process;
  return process;
}

// As in CUDA, every thread has its own current context.
thread_local Context current_context = nullptr;

// --- MPS -----------------------------------------------------------------------------------------

int connect_to_server() {
  const std::string pipe = variable("CUDA_MPS_PIPE_DIRECTORY");
  const std::string path = pipe + "/control";
  sockaddr_un address{};
  if (pipe.empty() || path.size() >= sizeof address.sun_path) return -1;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct statvfs mount {};
  if (behaviour("no-read-only-pipe") && ::statvfs(pipe.c_str(), &mount) == 0 &&
      (mount.f_flag & ST_RDONLY) != 0) {
    return -1;
  }
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return connection;
  }
  ::close(connection);
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

void join_mps(Process& p) {
  if (behaviour("no-mps")) return;
  const int connection = connect_to_server();
  if (connection < 0) return;
  static_cast<void>(read_line(connection));  // the greeting
  const std::string hello = "client " + std::to_string(node_pid()) + "\n";
  // If this fails, there is no answer either.
  static_cast<void>(::send(connection, hello.data(), hello.size(), MSG_NOSIGNAL));
  const std::string answer = read_line(connection);
  if (answer == "ok") {
    p.connection = connection;
    return;
  }
  ::close(connection);
  p.refusal = answer == "full"    ? kMpsMaxClientsReached
              : answer == "fault" ? kMpsServerNotReady
                                  : kMpsConnectionFailed;
}

// Whether the compute mode allows no context outside of MPS. The last line of the file counts.
bool is_excluded(const Process& p) {
  if (p.is_client() || behaviour("no-exclusive")) return false;
  std::ifstream modes(variable("MGPU_FAKE_NVML") + ".mode");
  std::string uuid;
  int last = 0;
  for (int mode = 0; modes >> uuid >> mode;) {
    last = behaviour("stays-exclusive") ? std::max(last, mode) : mode;
  }
  return last == 3;
}

// Waits. Returns false as soon as the server has closed the connection; without MPS it only waits.
bool wait_connected(int connection, nanoseconds duration) {
  const auto end = steady_clock::now() + duration;
  while (true) {
    const nanoseconds left = std::max<nanoseconds>(end - steady_clock::now(), nanoseconds(0));
    const timespec timeout{static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    pollfd hung_up{connection, 0, 0};
    const int ready = ::ppoll(&hung_up, 1, &timeout, nullptr);
    if (ready >= 0) return ready == 0;
    if (errno != EINTR) return true;
  }
}

// The number of multiprocessors that this process can use.
double percent_of_device(const Process& p) {
  const double asked = std::strtod(variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").c_str(), nullptr);
  const bool limited = p.is_client() && asked > 0 && asked < 100 && !behaviour("no-share");
  return limited ? asked : 100;
}

// The memory limit in bytes, including the context; "0=1024M,1=2G" limits device 0 to 1 GiB.
std::optional<std::uint64_t> mps_memory_limit(const Process& p) {
  if (!p.is_client() || behaviour("no-limit")) return std::nullopt;
  std::istringstream entries(variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (!entry.starts_with("0=")) continue;
    char* unit = nullptr;
    const std::uint64_t amount = std::strtoull(entry.c_str() + 2, &unit, 10);
    if (*unit == 'M') return amount * kBytesPerMiB;
    if (*unit == 'G') return amount * kBytesPerMiB * 1024;
  }
  return std::nullopt;
}

// --- memory --------------------------------------------------------------------------------------

// A lock that a process holds while it reads the free memory and allocates some of it.
class FolderLock {
 public:
  FolderLock() : folder_(::open(state_folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ >= 0) ::flock(folder_, LOCK_EX);
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int folder_;
};

// The memory of the other running processes with a file, of all or of those in `pids`.
std::uint64_t used_by_others(const std::set<pid_t>* pids = nullptr) {
  const std::string prefix = "process.";
  std::uint64_t sum = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(state_folder(), failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(prefix)) continue;
    char* rest = nullptr;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + prefix.size(), &rest, 10));
    const bool other =
        *rest == '\0' && pid > 0 && pid != node_pid() && (pids == nullptr || pids->contains(pid));
    if (!other || (::kill(pid, 0) != 0 && errno == ESRCH)) continue;
    std::uint64_t bytes = 0;
    if (std::ifstream(at->path()) >> bytes) sum += bytes;
  }
  return sum;
}

// What the limit of the cgroup of this process leaves for it. fake_nvml.cc writes the limits:
// "<uuid> <cgroup> <soft> <hard>", of which the last one counts. cgroup.procs has the pids.
std::optional<std::uint64_t> left_in_cgroup() {
  if (behaviour("no-limit")) return std::nullopt;
  std::ifstream limits(variable("MGPU_FAKE_NVML") + ".limits");
  std::map<std::string, std::uint64_t> hard_of;
  std::string uuid;
  std::string cgroup;
  std::uint64_t soft = 0;
  for (std::uint64_t hard = 0; limits >> uuid >> cgroup >> soft >> hard;) hard_of[cgroup] = hard;
  for (const auto& [path, hard] : hard_of) {
    std::ifstream processes(path + "/cgroup.procs");
    std::set<pid_t> pids;
    for (pid_t pid = 0; processes >> pid;) pids.insert(pid);
    if (pids.contains(::getpid()) && hard != std::numeric_limits<std::uint64_t>::max())
      return hard - std::min(used_by_others(&pids), hard);
  }
  return std::nullopt;
}

// What this process may have at most: the least of its limits.
std::optional<std::uint64_t> memory_limit(const Process& p) {
  const auto limit = mps_memory_limit(p);
  const auto left = left_in_cgroup();
  return limit && left ? std::min(limit, left) : left ? left : limit;
}

void write_use(Process& p) {
  if (state_folder().empty()) return;
  const std::string path = state_folder() + "/process." + std::to_string(node_pid());
  std::ofstream file(path + ".new", std::ios::trunc);
  file << p.used << " " << (p.is_client() ? "mps" : "compute") << "\n";
  file.close();
  if (file && std::rename((path + ".new").c_str(), path.c_str()) == 0) p.use_file = path;
}

// Adds to the memory of this process, unless that exceeds a limit.
int take_memory(Process& p, std::uint64_t bytes) {
  const FolderLock lock;
  const std::uint64_t device = device_bytes();
  if (bytes > device) return kOutOfMemory;
  if (behaviour("limit-together") && bytes > 1024 * kBytesPerMiB) {
    const int first = ::open("/tmp/fake-cuda-limit", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (first < 0) return kOutOfMemory;
    ::close(first);
  }
  const auto limit = memory_limit(p);
  if (limit && p.used + bytes > *limit) return kOutOfMemory;
  if (p.used + bytes + used_by_others() > device) return kOutOfMemory;
  p.used += bytes;
  write_use(p);
  return kSuccess;
}

struct Range {
  bool known = false;               // whether it is inside one allocation
  unsigned char* memory = nullptr;  // the memory of the allocation, if any
};

Range range_at(Process& p, DevicePointer at, std::size_t bytes) {
  auto next = p.allocations.upper_bound(at);
  if (next == p.allocations.begin()) return {};
  auto& [begin, allocation] = *std::prev(next);
  const std::size_t offset = at - begin;
  if (offset >= allocation.bytes || bytes > allocation.bytes - offset) return {};
  if (allocation.bytes > kBackedBytesMax) return {.known = true};
  if (!allocation.memory) {
    allocation.memory.reset(static_cast<unsigned char*>(std::calloc(allocation.bytes, 1)));
  }
  return {.known = true, .memory = allocation.memory.get() + offset};
}

// --- kernels -------------------------------------------------------------------------------------

template <class Value>
Value argument(void** arguments, int index) {
  Value value{};
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

// As on a device, a wrong address is found when the kernel runs, and all later calls fail.
void add_vectors(Process& p, std::uint64_t threads, void** arguments) {
  const std::uint64_t asked = argument<std::uint32_t>(arguments, 3);
  const std::size_t count = std::min<std::uint64_t>(asked, threads);
  if (count == 0) return;
  Range ranges[3];
  for (int i = 0; i < 3; ++i) {
    ranges[i] = range_at(p, argument<DevicePointer>(arguments, i), count * sizeof(float));
    if (!ranges[i].known) p.broken = kIllegalAddress;
  }
  if (p.broken != kSuccess) return;
  const float error = behaviour("wrong-sum") ? 1.0F : 0.0F;
  for (std::size_t i = 0; i < count && ranges[2].memory != nullptr; ++i) {
    float terms[2] = {0, 0};
    for (int term = 0; term < 2; ++term) {
      if (ranges[term].memory == nullptr) continue;
      std::memcpy(&terms[term], ranges[term].memory + i * sizeof(float), sizeof(float));
    }
    const float sum = terms[0] + terms[1] + error;
    std::memcpy(ranges[2].memory + i * sizeof(float), &sum, sizeof sum);
  }
}

void spin(Process& p, unsigned blocks, void** arguments) {
  const double iterations = argument<std::uint32_t>(arguments, 1);
  p.pending_ns += kSpinNanoseconds * blocks * iterations * 100 / percent_of_device(p);
}

// Whether the image has an entry with exactly this name.
bool has_entry(const std::string& image, const std::string& name) {
  const std::string entry = ".entry " + name;
  for (std::size_t at = 0; (at = image.find(entry, at)) != std::string::npos; ++at) {
    const char next = image.c_str()[at + entry.size()];
    if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return true;
  }
  return false;
}

// --- checks at the beginning of functions --------------------------------------------------------

// For functions that need cuInit.
int started(const Process& p, const std::string& function) {
  if (const int code = trouble(function); code != kSuccess) return code;
  return p.initialized ? kSuccess : kNotInitialized;
}

// For functions about the one device.
int started_on(const Process& p, const std::string& function, Device device) {
  if (const int code = started(p, function); code != kSuccess) return code;
  return device == 0 ? kSuccess : kInvalidDevice;
}

// For functions that need a context, and a running server of MPS.
int working(Process& p, const std::string& function) {
  if (const int code = started(p, function); code != kSuccess) return code;
  if (current_context == nullptr) return kInvalidContext;
  const std::lock_guard lock(p.mutex);
  if (p.broken == kSuccess && !wait_connected(p.connection, nanoseconds(0))) {
    p.broken = kMpsRpcFailure;
  }
  return p.broken;
}

int error_text(int code, const char* ErrorText::*part, const char** text) {
  *text = nullptr;
  for (const ErrorText& error : kErrors) {
    if (error.code == code) *text = error.*part;
  }
  return *text != nullptr ? kSuccess : kInvalidValue;
}

}  // namespace
}  // namespace mgpu::gpu_trial::cuda

#define FAKE_CUDA extern "C" __attribute__((visibility("default")))

// NOLINTBEGIN: the names are CUDA's.
using namespace mgpu::gpu_trial::cuda;

FAKE_CUDA int cuInit(unsigned flags) {
  if (const int code = trouble("cuInit"); code != kSuccess) return code;
  if (flags != 0) return kInvalidValue;
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (!p.initialized) join_mps(p);
  p.initialized = true;
  return kSuccess;
}

FAKE_CUDA int cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return trouble("cuDriverGetVersion");
}

FAKE_CUDA int cuGetErrorName(int code, const char** text) {
  return error_text(code, &ErrorText::name, text);
}

FAKE_CUDA int cuGetErrorString(int code, const char** text) {
  return error_text(code, &ErrorText::text, text);
}

// --- the device ----------------------------------------------------------------------------------

FAKE_CUDA int cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  return started_on(process(), "cuDeviceGet", ordinal);
}

FAKE_CUDA int cuDeviceGetName(char* name, int bytes, Device device) {
  if (const int code = started_on(process(), "cuDeviceGetName", device); code != kSuccess) {
    return code;
  }
  if (bytes <= 0) return kInvalidValue;
  const std::string text = behaviour("name").value_or("NVIDIA H200");
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(bytes) - 1);
  std::memcpy(name, text.data(), count);
  name[count] = '\0';
  return kSuccess;
}

FAKE_CUDA int cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  if (const int code = started_on(process(), "cuDeviceGetUuid_v2", device); code != kSuccess) {
    return code;
  }
  std::string digits = behaviour("uuid").value_or(kDefaultUuid);
  if (digits.starts_with("GPU-")) digits.erase(0, 4);
  std::erase(digits, '-');
  digits.resize(2 * sizeof uuid->bytes, '0');
  for (std::size_t i = 0; i < sizeof uuid->bytes; ++i) {
    const std::string byte = digits.substr(2 * i, 2);
    uuid->bytes[i] = static_cast<unsigned char>(std::strtoul(byte.c_str(), nullptr, 16));
  }
  return kSuccess;
}

FAKE_CUDA int cuDeviceGetAttribute(int* value, int attribute, Device device) {
  Process& p = process();
  if (const int code = started_on(p, "cuDeviceGetAttribute", device); code != kSuccess) return code;
  const double share = kMultiprocessors * percent_of_device(p) / 100;
  switch (attribute) {
    case kMultiprocessorCount:
      *value = std::max(kMultiprocessorsMin, static_cast<int>(share));
      return kSuccess;
    case kMpsEnabled:
      *value = p.connection >= 0 ? 1 : 0;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

// --- contexts ------------------------------------------------------------------------------------

FAKE_CUDA int cuDevicePrimaryCtxRetain(Context* context, Device device) {
  Process& p = process();
  if (const int code = started_on(p, "cuDevicePrimaryCtxRetain", device); code != kSuccess) {
    return code;
  }
  const std::lock_guard lock(p.mutex);
  if (p.refusal != kSuccess) return p.refusal;
  if (is_excluded(p)) return kDeviceUnavailable;
  if (!wait_connected(p.connection, nanoseconds(0))) return kMpsRpcFailure;
  if (!p.has_context) {
    const std::uint64_t bytes =
        p.is_client() ? bytes_said("mps_context", 30) : bytes_said("context", 500);
    if (const int code = take_memory(p, bytes); code != kSuccess) return code;
    p.has_context = true;
  }
  *context = &p.context;
  return kSuccess;
}

FAKE_CUDA int cuCtxSetCurrent(Context context) {
  Process& p = process();
  if (const int code = started(p, "cuCtxSetCurrent"); code != kSuccess) return code;
  if (context != nullptr && (context != &p.context || !p.has_context)) return kInvalidContext;
  current_context = context;
  return kSuccess;
}

FAKE_CUDA int cuCtxSynchronize() {
  Process& p = process();
  if (const int code = working(p, "cuCtxSynchronize"); code != kSuccess) return code;
  std::unique_lock lock(p.mutex);
  const nanoseconds pending(static_cast<std::int64_t>(std::exchange(p.pending_ns, 0)));
  const int connection = p.connection;
  lock.unlock();
  if (wait_connected(connection, pending)) return kSuccess;
  lock.lock();
  p.broken = kMpsRpcFailure;
  return p.broken;
}

// --- kernels -------------------------------------------------------------------------------------

FAKE_CUDA int cuModuleLoadData(Module* module, const void* image) {
  Process& p = process();
  if (const int code = working(p, "cuModuleLoadData"); code != kSuccess) return code;
  const std::string text = static_cast<const char*>(image);
  if (text.find(".version") == std::string::npos) return kInvalidImage;
  const std::lock_guard lock(p.mutex);
  *module = &p.modules.emplace_back(ModuleHandle{text});
  return kSuccess;
}

FAKE_CUDA int cuModuleGetFunction(Function* function, Module module, const char* name) {
  Process& p = process();
  if (const int code = working(p, "cuModuleGetFunction"); code != kSuccess) return code;
  if (module == nullptr) return kInvalidHandle;
  if (!has_entry(module->image, name)) return kNotFound;
  const std::lock_guard lock(p.mutex);
  *function = &p.functions.emplace_back(FunctionHandle{name});
  return kSuccess;
}

FAKE_CUDA int cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned, Stream,
                             void** arguments, void**) {
  Process& p = process();
  if (const int code = working(p, "cuLaunchKernel"); code != kSuccess) return code;
  if (function == nullptr) return kInvalidHandle;
  const std::uint64_t threads = std::uint64_t{grid_x} * block_x;
  if (threads == 0 || grid_y == 0 || grid_z == 0 || block_y == 0 || block_z == 0) {
    return kInvalidValue;
  }
  const std::lock_guard lock(p.mutex);
  const bool adds = function->name == "vector_add";
  const bool spins = function->name == "spin";
  if ((adds || spins) && arguments == nullptr) return kInvalidValue;
  if (adds) add_vectors(p, threads, arguments);
  if (spins) spin(p, grid_x, arguments);
  return kSuccess;
}

// --- memory --------------------------------------------------------------------------------------

FAKE_CUDA int cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  Process& p = process();
  if (const int code = working(p, "cuMemAlloc_v2"); code != kSuccess) return code;
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(p.mutex);
  if (const int code = take_memory(p, bytes); code != kSuccess) return code;
  *pointer = p.next_address;
  p.allocations[*pointer].bytes = bytes;
  p.next_address += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return kSuccess;
}

FAKE_CUDA int cuMemFree_v2(DevicePointer pointer) {
  Process& p = process();
  if (const int code = working(p, "cuMemFree_v2"); code != kSuccess) return code;
  const std::lock_guard lock(p.mutex);
  const auto found = p.allocations.find(pointer);
  if (found == p.allocations.end()) return kInvalidValue;
  p.used -= found->second.bytes;
  p.allocations.erase(found);
  write_use(p);
  return kSuccess;
}

FAKE_CUDA int cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
  Process& p = process();
  if (const int code = working(p, "cuMemcpyHtoD_v2"); code != kSuccess) return code;
  const std::lock_guard lock(p.mutex);
  const Range range = range_at(p, to, bytes);
  if (range.memory != nullptr) std::memcpy(range.memory, from, bytes);
  return range.known ? kSuccess : kInvalidValue;
}

FAKE_CUDA int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  Process& p = process();
  if (const int code = working(p, "cuMemcpyDtoH_v2"); code != kSuccess) return code;
  const std::lock_guard lock(p.mutex);
  const Range range = range_at(p, from, bytes);
  if (!range.known) return kInvalidValue;
  if (range.memory != nullptr) {
    std::memcpy(to, range.memory, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
  return kSuccess;
}

// The free memory is what cuMemAlloc could allocate, so it is never above the limit of a client.
FAKE_CUDA int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Process& p = process();
  if (const int code = working(p, "cuMemGetInfo_v2"); code != kSuccess) return code;
  const std::lock_guard lock(p.mutex);
  *total = device_bytes();
  const std::uint64_t used = p.used + used_by_others();
  *free = *total - std::min<std::uint64_t>(used, *total);
  if (const auto limit = memory_limit(p)) {
    *free = std::min<std::uint64_t>(*free, *limit - std::min(p.used, *limit));
  }
  return kSuccess;
}

// NOLINTEND
