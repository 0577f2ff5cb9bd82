#include "plugin/share/check/checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "plugin/share/driver.h"
#include "plugin/share/look.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kPiece = 8 * kMiB;
// What is left to the programs besides a context: three chunks of a pool.
constexpr std::uint64_t kRoom = 96 * kMiB;
// A way of allocating that is not counted gets no more than this, which must be free on the card.
constexpr std::uint64_t kMost = 2 * kRoom;
constexpr std::uint64_t kLeast = kRoom / 3;
// What programs ask cuGetProcAddress for: all functions here have had this form since CUDA 11.4.
constexpr int kCudaVersion = 11'040;

void* library = nullptr;
Device device = 0;
Uuid uuid{};
std::string pages;  // the folder of the card's pages

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof(line) - 1, format, arguments);
  va_end(arguments);
  const auto size = std::min(static_cast<std::size_t>(length), sizeof(line) - 2);
  line[size] = '\n';
  const ssize_t written = write(STDOUT_FILENO, line, size + 1);
  static_cast<void>(written);
}

unsigned long long mib(std::uint64_t bytes) {
  return bytes / kMiB;
}

// As NVIDIA's runtimes find functions, or by their names in a driver before that.
void* address_of(const char* name) {
  using Ask = Result(const char*, void**, int, std::uint64_t);
  static auto* const ask = reinterpret_cast<Ask*>(dlsym(library, "cuGetProcAddress"));
  void* function = nullptr;
  if (ask == nullptr || ask(name, &function, kCudaVersion, 0) != kSuccess) return nullptr;
  return function;
}

// REQUIRES: the arguments have the types of the function.
template <class... Arguments>
Result call(const char* name, Arguments... arguments) {
  void* const found = address_of(name);
  if (found == nullptr) return kNotFound;
  return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
}

// --- ways of allocating --------------------------------------------------------------------------

std::vector<Address> taken;

Result take_linear(std::uint64_t bytes) {
  Address address = 0;
  const Result result = call("cuMemAlloc", &address, static_cast<std::size_t>(bytes));
  if (result == kSuccess) taken.push_back(address);
  return result;
}

void free_linear(Address address) {
  call("cuMemFree", address);
}

Result take_of_pool(std::uint64_t bytes) {
  Address address = 0;
  const Result result =
      call("cuMemAllocAsync", &address, static_cast<std::size_t>(bytes), Handle{nullptr});
  if (result == kSuccess) taken.push_back(address);
  return result;
}

void free_of_pool(Address address) {
  Handle pool = nullptr;
  call("cuMemFreeAsync", address, Handle{nullptr});
  call("cuCtxSynchronize");
  if (call("cuDeviceGetDefaultMemPool", &pool, device) == kSuccess) {
    call("cuMemPoolTrimTo", pool, std::size_t{0});
  }
}

// Mapped, and without its handle: it is the mapping that keeps it.
struct Mapped {
  Address address;
  std::size_t bytes;
};
Result map(Address handle, Mapped* mapped) {
  Result result = call("cuMemAddressReserve", &mapped->address, mapped->bytes, std::size_t{0},
                       Address{0}, std::uint64_t{0});
  if (result != kSuccess) return result;
  result =
      call("cuMemMap", mapped->address, mapped->bytes, std::size_t{0}, handle, std::uint64_t{0});
  if (result != kSuccess) call("cuMemAddressFree", mapped->address, mapped->bytes);
  return result;
}

Result take_virtual(std::uint64_t bytes) {
  AllocationProperties properties{};
  properties.type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  properties.location = {.type = kDeviceLocation, .id = device};
  const AllocationProperties* const wanted = &properties;
  Address handle = 0;
  Mapped mapped{.address = 0, .bytes = static_cast<std::size_t>(bytes)};
  Result result = call("cuMemCreate", &handle, mapped.bytes, wanted, std::uint64_t{0});
  if (result != kSuccess) return result;
  result = map(handle, &mapped);
  call("cuMemRelease", handle);
  if (result == kSuccess) taken.push_back(mapped.address);
  return result;
}

void free_virtual(Address address) {
  call("cuMemUnmap", address, static_cast<std::size_t>(kPiece));
  call("cuMemAddressFree", address, static_cast<std::size_t>(kPiece));
}

// Two nodes, which allocate and free.
Result build_graph(std::uint64_t bytes, Handle graph) {
  AllocationNode allocation{};
  allocation.pool.type = 1;
  allocation.pool.location = {.type = kDeviceLocation, .id = device};
  allocation.bytes = static_cast<std::size_t>(bytes);
  Handle node = nullptr;
  Handle end = nullptr;
  const Handle* const none = nullptr;
  const Result result =
      call("cuGraphAddMemAllocNode", &node, graph, none, std::size_t{0}, &allocation);
  if (result != kSuccess) return result;
  const Handle* const before = &node;
  return call("cuGraphAddMemFreeNode", &end, graph, before, std::size_t{1}, allocation.address);
}

// The memory of a graph is taken when it is launched.
Result launch_graph(std::uint64_t bytes) {
  Handle graph = nullptr;
  Handle exec = nullptr;
  Result result = call("cuGraphCreate", &graph, 0U);
  if (result != kSuccess) return result;
  result = build_graph(bytes, graph);
  if (result == kSuccess) {
    result = call("cuGraphInstantiateWithFlags", &exec, graph, std::uint64_t{0});
  }
  if (result == kSuccess) {
    result = call("cuGraphLaunch", exec, Handle{nullptr});
    call("cuCtxSynchronize");
    call("cuGraphExecDestroy", exec);
  }
  call("cuGraphDestroy", graph);
  call("cuDeviceGraphMemTrim", device);
  return result;
}

struct Way {
  const char* check;
  const char* function;
  Result (*take)(std::uint64_t bytes);
  void (*free)(Address address);  // null: nothing is kept
  bool works = false;
};
Way ways[] = {{"memory", "cuMemAlloc", take_linear, free_linear},
              {"pool", "cuMemAllocAsync", take_of_pool, free_of_pool},
              {"virtual", "cuMemCreate", take_virtual, free_virtual},
              {"graph", "cuGraphLaunch", launch_graph, nullptr}};

void free_all(const Way& way) {
  for (const Address address : taken) way.free(address);
  taken.clear();
}

std::uint64_t take_until_refused(const Way& way, Result* result) {
  std::uint64_t granted = 0;
  *result = kSuccess;
  while (granted < kMost && (*result = way.take(kPiece)) == kSuccess) granted += kPiece;
  return granted;
}

// --- the first program ---------------------------------------------------------------------------

// What is free on the card itself, whoever has the rest.
std::uint64_t free_on_card() {
  using Ask = Result(std::size_t*, std::size_t*);
  void* const driver = dlopen("/usr/lib/mgpu/libmgpu-cuda-driver.so", RTLD_NOW | RTLD_LOCAL);
  void* const found = driver != nullptr ? dlsym(driver, "cuMemGetInfo_v2") : nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  if (found == nullptr || reinterpret_cast<Ask*>(found)(&free, &total) != kSuccess) return 0;
  return free;
}

// Whether the driver answers the same without the library.
bool driver_fails_too(Result result) {
  void* const driver = dlopen("/usr/lib/mgpu/libmgpu-cuda-driver.so", RTLD_NOW | RTLD_LOCAL);
  void* const found = driver != nullptr ? dlsym(driver, "cuInit") : nullptr;
  return found == nullptr || reinterpret_cast<Result (*)(unsigned)>(found)(0) == result;
}

Result find_device() {
  int count = 0;
  Result result = call("cuDeviceGetCount", &count);
  for (int i = 0; i < count && result == kSuccess; ++i) {
    Uuid found{};
    result = call("cuDeviceGet", &device, i);
    if (result == kSuccess) result = call("cuDeviceGetUuid", &found, device);
    if (result == kSuccess && std::memcmp(found.bytes, uuid.bytes, sizeof(uuid.bytes)) == 0) {
      return kSuccess;
    }
  }
  return result == kSuccess ? kNotFound : result;
}

Result make_context() {
  Handle context = nullptr;
  const Result result = call("cuDevicePrimaryCtxRetain", &context, device);
  return result == kSuccess ? call("cuCtxSetCurrent", context) : result;
}

// A context on the card. False: it is said why there is none.
bool begin(const char* libcuda) {
  library = dlopen(libcuda, RTLD_NOW);
  if (library == nullptr) {
    say("failed start: %s", dlerror());
    return false;
  }
  if (const Result result = call("cuInit", 0U); result != kSuccess) {
    const bool both = driver_fails_too(result);
    say("%s start: cuInit returns %d%s", both ? "skipped" : "failed", result,
        both ? ", also without the library" : "");
    return false;
  }
  Result result = find_device();
  if (result == kSuccess) result = make_context();
  if (result != kSuccess) say("skipped start: a context returns %d", result);
  return result == kSuccess;
}

std::uint64_t counted() {
  Look look;
  return look_at(pages.c_str(), uuid.bytes, &look) == nullptr ? look.used_bytes : 0;
}

bool set_limit(std::uint64_t bytes) {
  const PagePaths paths(pages.c_str());
  const std::uint64_t units = units_of(bytes);
  const int file = open(paths.limits, O_WRONLY | O_CLOEXEC);
  const ssize_t written = pwrite(file, &units, sizeof(units), sizeof(PageHeader));
  close(file);
  return written == ssize_t(sizeof(units));
}

// Uses each way once, since the driver takes memory of its own then, and lets the library measure
// that, which it does every 10 ms.
void try_ways() {
  for (Way& way : ways) {
    const Result result = way.take(kPiece);
    way.works = result == kSuccess;
    if (!way.works) say("skipped %s: %s returns %d", way.check, way.function, result);
    free_all(way);
  }
  const timespec interval{.tv_sec = 0, .tv_nsec = 30'000'000};
  nanosleep(&interval, nullptr);
  if (take_linear(kPiece) == kSuccess) free_all(ways[0]);
}

bool lower_limit() {
  const std::uint64_t limit = counted() + kRoom;
  std::size_t free = 0;
  std::size_t total = 0;
  if (!set_limit(limit)) {
    say("skipped start: the limit is not written");
    return false;
  }
  call("cuMemGetInfo", &free, &total);
  const std::uint64_t expected = units_of(limit) * kUnit;
  if (total == expected && free <= kRoom) return true;
  say("failed start: a program sees %llu MiB as its card, and its limit is %llu", mib(total),
      mib(expected));
  return false;
}

void check_way(const Way& way) {
  if (way.free == nullptr) {
    const Result result = way.take(kMost);
    if (result == kOutOfMemory) return say("passed %s", way.check);
    return say("failed %s: %llu MiB by %s returned %d where %llu were left", way.check, mib(kMost),
               way.function, result, mib(kRoom));
  }
  Result result = kSuccess;
  const std::uint64_t granted = take_until_refused(way, &result);
  const bool card_is_full = granted < kLeast && free_on_card() < kMost;
  free_all(way);
  if (card_is_full) return say("skipped %s: the card is full", way.check);
  if (granted >= kLeast && granted <= kRoom && result == kOutOfMemory) {
    return say("passed %s", way.check);
  }
  say("failed %s: %s gave %llu MiB where %llu were left, then %d", way.check, way.function,
      mib(granted), mib(kRoom), result);
}

// Stays with all that it gets, after it has written to `filled`.
void run_first(const char* libcuda, int filled) {
  if (!begin(libcuda)) return;
  if (free_on_card() < kMost + kRoom) {
    return say("skipped start: only %llu MiB are free on the card", mib(free_on_card()));
  }
  try_ways();
  if (!lower_limit()) return;
  for (const Way& way : ways) {
    if (way.works) check_way(way);
  }
  Result result = kSuccess;
  take_until_refused(ways[0], &result);
  if (write(filled, ".", 1) == 1) pause();
}

// --- the second program --------------------------------------------------------------------------

bool wait_for(int end) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = read(end, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

// While the first one has everything, and after it was killed.
void run_second(const char* libcuda, int turn, int done) {
  if (!wait_for(turn)) return;
  library = dlopen(libcuda, RTLD_NOW);
  if (library == nullptr || call("cuInit", 0U) != kSuccess || find_device() != kSuccess) return;
  Result result = make_context();
  if (result == kSuccess) result = take_linear(kPiece);
  if (result == kOutOfMemory) {
    say("passed processes");
  } else {
    say("failed processes: a second program returned %d where nothing was left", result);
  }
  if (write(done, ".", 1) != 1 || !wait_for(turn)) return;
  result = make_context();
  if (result == kSuccess) result = take_linear(kPiece);
  if (result == kSuccess) return say("passed ended");
  // A container with the card to itself, or the server of MPS, has started meanwhile.
  if (result == kDeviceUnavailable) return say("skipped ended: the card is not available");
  say("failed ended: what a killed program had is not free: %d", result);
}

// --- both ----------------------------------------------------------------------------------------

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  static_cast<void>(pipe2(ends, O_CLOEXEC));
  return {.read_end = ends[0], .write_end = ends[1]};
}

template <class Run>
pid_t start(const Pipe& heard, Run run) {
  const pid_t child = fork();
  if (child != 0) {
    close(heard.write_end);
    return child;
  }
  run();
  _exit(0);
}

bool make_pages_of(const CheckedCard& card) {
  PageValues values;
  if (!read_uuid(card.uuid, values.uuid)) return false;
  std::memcpy(uuid.bytes, values.uuid, sizeof(uuid.bytes));
  char name[41];
  write_uuid(values.uuid, name);
  std::string folder = MGPU_SHARE_FOLDER;
  for (std::size_t at = 1; at != std::string::npos; at = folder.find('/', at + 1)) {
    mkdir(folder.substr(0, at).c_str(), 0755);
  }
  mkdir(folder.c_str(), 0755);
  pages = folder + "/" + name;
  mkdir(pages.c_str(), 0755);
  values.limit_bytes = kUnitsMax * kUnit;
  values.context_bytes = card.context_bytes;
  return make_pages(pages.c_str(), values) == nullptr;
}

// One that the library has ended with the driver would end programs of containers, too.
void say_if_crashed(pid_t child, const char* check) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFSIGNALED(status)) return;
  const bool killed = WTERMSIG(status) == SIGKILL;
  say("%s %s: a program ended with signal %d", killed ? "skipped" : "failed", check,
      WTERMSIG(status));
}

}  // namespace

int run_checks(const CheckedCard& card) {
  if (!make_pages_of(card)) {
    say("skipped start: the pages of a share are not made");
    return 0;
  }
  const Pipe filled = make_pipe();
  const Pipe done = make_pipe();
  const Pipe turns = make_pipe();
  const pid_t first = start(filled, [&] {
    close(done.write_end);  // so that the end of the second one is seen
    run_first(card.libcuda, filled.write_end);
  });
  const pid_t second = start(done, [&] {
    close(turns.write_end);
    run_second(card.libcuda, turns.read_end, done.write_end);
  });
  const bool ran = wait_for(filled.read_end);
  if (ran && write(turns.write_end, ".", 1) == 1) wait_for(done.read_end);
  if (ran) {
    kill(first, SIGKILL);
    waitpid(first, nullptr, 0);
    static_cast<void>(write(turns.write_end, ".", 1));
  } else {
    say_if_crashed(first, "start");
  }
  close(turns.write_end);
  say_if_crashed(second, "processes");
  say("done");
  return 0;
}

}  // namespace mgpu::share
